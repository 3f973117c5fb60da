-- The requests of wrk: names in turn, with keep-alive or `Connection: close`. Use: -- PREFIX COUNT keep-alive|close
local requests, count, last = {}, 0, 0

function init(args)
    count = tonumber(args[2])
    local headers = {}
    if args[3] == "close" then headers["Connection"] = "close" end
    for number = 0, count - 1 do
        requests[number] = wrk.format("GET", args[1] .. number, headers)
    end
end

function request()
    last = (last + 1) % count
    return requests[last]
end

function done(summary, latency)
    local errors = summary.errors
    io.write(string.format(
        '{"seconds":%f,"requests":%d,"bytes":%d,"p50_ms":%f,"p99_ms":%f,"refused":%d,"broken":%d}\n',
        summary.duration / 1e6, summary.requests, summary.bytes, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3,
        errors.status, errors.connect + errors.read + errors.write + errors.timeout))
end

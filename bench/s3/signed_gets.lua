-- Small GETs with fields that were made before: a file has a request a line, `path`, and `name: value` for each field, between tabs.
-- Use: -- FILE
local requests, count, last = {}, 0, 0

function init(args)
    for line in io.lines(args[1]) do
        local path, headers = nil, {}
        for word in string.gmatch(line, "[^\t]+") do
            if not path then
                path = word
            else
                local name, value = string.match(word, "^([^:]+): (.*)$")
                headers[name] = value
            end
        end
        requests[count] = wrk.format("GET", path, headers)
        count = count + 1
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

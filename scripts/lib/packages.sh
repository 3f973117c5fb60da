# Installs Debian packages for programs that are missing. Sourced by the scripts beside this folder.

# need PROGRAM PACKAGE [PROGRAM PACKAGE ...]
need() {
    local missing=()
    while [ $# -gt 0 ]; do
        if ! PATH="$PATH:/usr/sbin:/sbin" command -v "$1" >/dev/null; then missing+=("$2"); fi
        shift 2
    done
    if [ ${#missing[@]} -eq 0 ]; then
        echo 'nothing to install'
        return
    fi
    local root=()
    if [ "$(id -u)" -ne 0 ]; then root=(sudo); fi
    echo "installing ${missing[*]} by apt-get${root:+ with sudo}"
    "${root[@]}" apt-get update -q
    # The servers are for private use by the tests: the system's own must not start.
    "${root[@]}" sh -c 'test -e /usr/sbin/policy-rc.d' || {
        "${root[@]}" sh -c 'printf "#!/bin/sh\nexit 101\n" > /usr/sbin/policy-rc.d; chmod +x /usr/sbin/policy-rc.d'
        trap "${root[*]} rm -f /usr/sbin/policy-rc.d" EXIT
    }
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"
}

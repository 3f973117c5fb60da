# Installs Debian packages for programs that are missing. Sourced by the scripts beside this folder.

# need PROGRAM PACKAGES [PROGRAM PACKAGES ...]
need() {
    local missing=() packages
    while [ $# -gt 0 ]; do
        # Servers are in folders that a user's PATH does not name.
        if ! PATH="$PATH:/usr/sbin:/sbin" command -v "$1" >/dev/null; then
            read -ra packages <<<"$2"
            missing+=("${packages[@]}")
        fi
        shift 2
    done
    if [ ${#missing[@]} -eq 0 ]; then
        echo 'all there'
        return
    fi
    if ! command -v apt-get >/dev/null; then
        echo "missing: ${missing[*]} (names of Debian packages; there is no apt-get here to install them with)" >&2
        return 1
    fi
    install_packages "${missing[@]}"
}

# need_python MODULES REQUIREMENT...
#
# Installs packages for Python in an environment below the target folder, if python3 has not all of these modules.
need_python() {
    local environment="${CARGO_TARGET_DIR:-target}/python" modules=$1 python=python3
    shift
    # The tests use the environment if there is one, so it has to have everything.
    if [ -x "$environment/bin/python3" ]; then python="$environment/bin/python3"; fi
    if "$python" -c "import $modules" 2>/dev/null; then
        return
    fi
    echo "installing by pip: $*"
    python3 -m venv "$environment"
    "$environment/bin/pip" install -q --disable-pip-version-check "$@"
}

# want_python MODULE PACKAGE REQUIREMENT...
#
# The same for a package that is compiled, and for what the environment has to have beside it. Without a wheel for this machine and this
# Python it is left out: building it takes long, and more than a compiler. Its tests are then skipped.
want_python() {
    local module=$1 package=$2
    shift 2
    need_python "$module" --only-binary "$package" "$package" "$@" || echo "no $package here: tests with it are skipped"
}

# A shell of its own, so that its trap runs when it ends, whatever becomes of the script.
install_packages() (
    root=()
    if [ "$(id -u)" -ne 0 ]; then root=(sudo); fi
    policy=/usr/sbin/policy-rc.d
    echo "installing by ${root[*]:+sudo }apt-get: $*"
    # The tests start servers of their own: the system's must not start by being installed.
    if [ ! -e "$policy" ]; then
        trap '"${root[@]}" rm -f "$policy"' EXIT
        printf '#!/bin/sh\nexit 101\n' | "${root[@]}" tee "$policy" >/dev/null
        "${root[@]}" chmod +x "$policy"
    fi
    "${root[@]}" apt-get update -q
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@" </dev/null
)

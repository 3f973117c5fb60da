# Builds the wheel of the Python package. Sourced by the scripts beside this folder, which run at the top of the tree.

# build_wheel PROFILE DIR [COMMAND]
#
# Builds the command, unless one is given, and the extension module with a profile of Cargo's, and leaves their wheel as the only one in a folder.
build_wheel() {
    local profile=$1 folder=$2 command=${3:-} maturin
    maturin=$(find_maturin)
    if [ -z "$command" ]; then
        cargo build --profile "$profile" --locked -p haul
        command=${CARGO_TARGET_DIR:-target}/${profile/#dev/debug}/haul
    fi
    # The wheel takes along what is in python/data/scripts. Without its symbols the command is a third of its size.
    mkdir -p python/data/scripts
    install -s "$command" python/data/scripts/haul
    rm -f "$folder"/haul-*.whl
    "$maturin" build -q --profile "$profile" --locked -m python/Cargo.toml --out "$folder"
}

# install_wheel DIR PYTHON: installs the wheel of a folder in the environment of an interpreter, without what it depends on.
install_wheel() {
    "$2" -m pip install -q --disable-pip-version-check --force-reinstall --no-deps "$1"/haul-*.whl
}

# The path of maturin, which comes from PyPI into an environment of its own where it is not installed.
find_maturin() {
    local environment=${CARGO_TARGET_DIR:-target}/maturin
    if command -v maturin; then return; fi
    if [ ! -x "$environment/bin/maturin" ]; then
        python3 -m venv "$environment"
        "$environment/bin/pip" install -q --disable-pip-version-check 'maturin>=1.8,<2'
    fi
    echo "$environment/bin/maturin"
}

# The first CPython from 3.11 on, and the newest.
oldest_python() { find_python 11 12 13 14 15 16; }
newest_python() { find_python 16 15 14 13 12 11; }

find_python() {
    local minor candidate
    for minor in "$@"; do
        # A version manager's program may be there and start nothing, but the manager has the version.
        for candidate in "python3.$minor" "${PYENV_ROOT:-$HOME/.pyenv}/versions/3.$minor".*/bin/"python3.$minor"; do
            if "$candidate" -c '' 2>/dev/null; then
                command -v "$candidate"
                return
            fi
        done
    done
    echo 'there is no CPython 3.11 or newer here' >&2
    return 1
}

# test_environment PYTHON ENVIRONMENT [PACKAGE ...]: installs what the tests of the wheel want. Those of clusters are skipped where Ray and Spark are not.
test_environment() {
    local interpreter=$1 environment=$2
    shift 2
    if [ -e "$environment/complete" ]; then return; fi
    "$interpreter" -m venv "$environment"
    "$environment/bin/python" -m pip install -q --disable-pip-version-check pytest pyarrow fsspec numpy "$@"
    touch "$environment/complete"
}

# test_package ENVIRONMENT [ARGUMENT ...]: runs the tests of the package in an environment that has its wheel, with arguments of pytest's.
test_package() {
    local environment=$1
    shift
    # Last, the environment of other tests, which has moto.
    PATH="$(realpath "$environment")/bin:$PATH:$(realpath -m "${CARGO_TARGET_DIR:-target}/python")/bin" \
        "$environment/bin/python" -m pytest -c python/pyproject.toml --rootdir python "$@"
}

# check_types ENVIRONMENT: checks the types of the package, and those of the extension module.
check_types() {
    "$1/bin/python" -m mypy --strict --config-file python/pyproject.toml -p haul
    "$1/bin/python" -m mypy.stubtest haul._haul --mypy-config-file python/pyproject.toml
}

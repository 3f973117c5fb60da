# Builds the wheel of the Python package. Sourced by the scripts beside this folder, which run at the top of the tree.

# build_wheel PROFILE DIR
#
# Builds the command and the extension module with a profile of Cargo's, and leaves their wheel as the only one in a folder.
build_wheel() {
    local profile=$1 folder=$2 target=${CARGO_TARGET_DIR:-target} maturin
    maturin=$(find_maturin)
    cargo build --profile "$profile" --locked -p haul
    # The wheel takes along what is in python/data/scripts. Without its symbols the command is a third of its size.
    mkdir -p python/data/scripts
    install -s "$target/${profile/#dev/debug}/haul" python/data/scripts/haul
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

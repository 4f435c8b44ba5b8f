"""The command `suci`, which the wheel brings: `python -m suci run -n 4 python program.py`."""

import os
import sys
import sysconfig


def main() -> None:
    places = [os.path.dirname(sys.executable), sysconfig.get_path("scripts")]
    for place in places:
        command = os.path.join(place, "suci")
        if os.access(command, os.X_OK):
            os.execv(command, ["suci", *sys.argv[1:]])
    sys.exit(
        f"the command suci is not in {' or '.join(places)}: this package was built without it; "
        "build it by `make python`, or by `cargo install --path crates/suci-cli`"
    )


if __name__ == "__main__":
    main()

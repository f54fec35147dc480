# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Prints docs/settings.md: python -m fusewire.settings_page > docs/settings.md."""

from fusewire import settings


def page() -> str:
    """docs/settings.md."""
    lines = [
        "# Settings",
        "Written by `python -m fusewire.settings_page` from `python/fusewire/settings.py`; change it there.",
        "",
        "## Who wins",
        "1. What the program says: `protocol=`, `ConfigProto(tensor_fuse=...)`, `RunConfig(...)`. One exception,",
        '   because it is what the setting is for: `protocol="grpc"` gives way to `FUSEWIRE_PROTOCOL`.',
        "2. The variable named `FUSEWIRE_...`.",
        "3. The variable of the same meaning that DeepRec's users know, where there is one.",
        "4. The default.",
        "",
        "`FUSEWIRE_DISABLE=1` is above them all. An empty variable counts as not set. `fusewire doctor` shows what is",
        "in force and where it comes from, and names variables that begin with `FUSEWIRE_` and mean nothing.",
        "",
        "## The table",
        "| setting | also read as | default | meaning | read |",
        "|---|---|---|---|---|",
    ]
    for setting in settings.SETTINGS:
        also = f"`{setting.predecessor}`" if setting.predecessor else ""
        default = setting.default or "none"
        lines.append(f"| `{setting.name}` | {also} | {default} | {setting.meaning} | {setting.where} |")
    lines += ["", "Read where it says:"]
    lines += [f"- **{where}**: {meaning}." for where, meaning in settings.WHERE.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(page(), end="")

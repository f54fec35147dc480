# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Prints docs/settings.md: python -m fusewire.cli.settings_page > docs/settings.md."""

from fusewire import settings


def page() -> str:
    """docs/settings.md."""
    lines = [
        "# Settings",
        "Written by `python -m fusewire.cli.settings_page` from `python/fusewire/settings.py`; change it there.",
        "",
        "## Precedence",
        "From the highest to the lowest:",
        "1. The program: `protocol=`, `ConfigProto(tensor_fuse=...)`, `RunConfig(...)`. There is one exception:",
        '   `FUSEWIRE_PROTOCOL` overrides `protocol="grpc"`, because that is its purpose.',
        "2. The variable named `FUSEWIRE_...`.",
        "3. The variable of the same meaning from DeepRec, where there is one.",
        "4. The default.",
        "",
        "`FUSEWIRE_DISABLE=1` overrides them all. An empty variable counts as not set. `fusewire doctor` shows the",
        "settings in force and where they come from, and names variables that begin with `FUSEWIRE_` but have no",
        "meaning.",
        "",
        "## The table",
        "| setting | also read as | default | meaning | read |",
        "|---|---|---|---|---|",
    ]
    for setting in settings.SETTINGS:
        also = f"`{setting.predecessor}`" if setting.predecessor else ""
        default = setting.default or "none"
        lines.append(f"| `{setting.name}` | {also} | {default} | {setting.meaning} | {setting.where} |")
    lines += ["", "When each is read:"]
    lines += [f"- **{where}**: {meaning}." for where, meaning in settings.WHERE.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(page(), end="")

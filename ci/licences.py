"""Checks the licence and source of every dependency against deny.toml, from `cargo metadata`."""

import json
import re
import subprocess
import sys
import tomllib


def main() -> int:
    """Returns 0 when every dependency is allowed."""
    with open("deny.toml", "rb") as file:
        policy = tomllib.load(file)
    allowed = set(policy["licenses"]["allow"])
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", "x86_64-unknown-linux-gnu"]
    packages = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["packages"]
    bad = []
    for package in packages:
        expression = (package["license"] or "").replace("/", " OR ")
        # One alternative must be allowed whole; no dependency here needs parentheses deeper than one level.
        alternatives = re.sub(r"[()]", "", expression).split(" OR ")
        if not any(set(a.split(" AND ")) <= allowed for a in alternatives):
            bad.append(f"{package['name']} {package['version']}: licence \"{expression}\" is not in deny.toml")
        source = package["source"]
        if source is not None and not source.startswith("registry+"):
            bad.append(f"{package['name']} {package['version']}: comes from {source}, not from the registry")
    for line in bad:
        print(f"error: {line}", file=sys.stderr)
    print(f"licences: {len(packages)} packages, {len(bad)} refused (cargo-deny is not here; advisories are not checked)")
    return 1 if bad else 0


sys.exit(main())

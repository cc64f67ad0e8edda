"""Differences and faults as plain data and as lines: shared by reports, JSON output and finding folders."""

from __future__ import annotations

from typing import Any

from difftest.model import Difference, Fault


def difference_json(difference: Difference | None) -> dict[str, Any] | None:
    """A difference as plain data."""
    if difference is None:
        return None
    return {
        "label": difference.label,
        "index": list(difference.index),
        "expected": difference.expected,
        "actual": difference.actual,
        "elements": difference.count,
        "bound": difference.bound,
    }


def fault_json(fault: Fault | None) -> dict[str, Any] | None:
    """A fault as plain data."""
    if fault is None:
        return None
    return {
        "rule": fault.rule,
        "message": fault.message,
        "op": fault.op,
        "line": fault.line,
        "iteration": list(fault.iteration),
    }


def fault_line(fault: Fault) -> str:
    """A fault as one line."""
    place = f" at line {fault.line}" if fault.line else ""
    where = f" in iteration {list(fault.iteration)}" if fault.iteration else ""
    return f"{fault.rule}: {fault.op}{place}{where}: {fault.message}"

"""Drop passes, then options, of the pipeline."""

from __future__ import annotations

from reducer.edits import Pass
from reducer.pipeline import DropElement, DropOption, PipelineSubject, options_of


def propose_passes(subject: PipelineSubject) -> list[DropElement]:
    """Every pass, the last first: what runs after the failing pass goes at once."""
    return [DropElement(path=path) for path in reversed(subject.elements)]


def propose_options(subject: PipelineSubject) -> list[DropOption]:
    """All options of each pass, then each one."""
    edits: list[DropOption] = []
    for path, element in subject.elements.items():
        options = options_of(element)
        edits.extend([DropOption(path=path, option=None)] if options else [])
        edits.extend(DropOption(path=path, option=n) for n in range(len(options)) if len(options) > 1)
    return edits


PASSES = (
    Pass(name="pipeline-passes", propose=propose_passes, form="pipeline"),
    Pass(name="pipeline-options", propose=propose_options, form="pipeline"),
)

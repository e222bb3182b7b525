"""The report as Markdown and as one self-contained HTML page."""

from __future__ import annotations

from pathlib import Path

from hexgen_celery.errors import MissingPrerequisite
from hexgen_celery.reports.policy_report import Report

TEMPLATES = Path(__file__).parent / "templates"


def write_pages(report: Report, directory: Path) -> tuple[Path, Path]:
    """Write `policies.md` and `policies.html`; returns their paths."""
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for name in ("policies.md", "policies.html"):
        path = directory / name
        path.write_text(render(report, f"{name}.j2"), encoding="utf-8")
        written.append(path)
    return written[0], written[1]


def render(report: object, template: str) -> str:
    """Fill one of the templates beside this module."""
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ImportError as error:
        raise MissingPrerequisite(
            "the report needs jinja2", hint='pip install "hexgen-celery[report]"'
        ) from error
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape="html" in template,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(report=report)

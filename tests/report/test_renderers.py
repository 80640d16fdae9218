"""The list of formats: one module each, known to the verbs that offer them."""

from __future__ import annotations

from importlib import import_module
from typing import get_args

import pytest

from tcprobe.cli.audit_shapes import Format as AuditFormat
from tcprobe.cli.options import Format as CompareFormat
from tcprobe.cli.report import Format as RunFormat
from tcprobe.report import FORMATS, RENDERERS, DocumentKind, Renderer, renderers


@pytest.mark.parametrize("renderer", RENDERERS, ids=lambda r: r.name)
def test_a_renderer_is_a_module_of_its_name(renderer: Renderer) -> None:
    assert callable(import_module(f"{renderer.room}.{renderer.name}").render)


def test_no_two_formats_share_a_name_or_an_ending() -> None:
    names, endings = [r.name for r in RENDERERS], [s for r in RENDERERS for s in r.suffixes]
    assert (len(set(names)), len(set(endings))) == (len(names), len(endings))


@pytest.mark.parametrize("kind", get_args(DocumentKind))
def test_every_kind_lists_formats_that_there_are(kind: DocumentKind) -> None:
    assert tuple(renderer.name for renderer in renderers(kind)) == FORMATS[kind]


def test_the_verbs_offer_the_formats_of_their_documents() -> None:
    offered = [get_args(one) for one in (RunFormat, CompareFormat, AuditFormat)]
    assert offered == [FORMATS[kind] for kind in ("run", "compare", "audit")]

"""The page: what it says, and that a browser shows it without complaint."""

from __future__ import annotations

import math
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vhagar import Domain
from vhagar.drawing.shapes import Text
from vhagar.report.data import Entry, StudyData
from vhagar.report.gallery import witness_figure
from vhagar.report.page import page, write_page
from vhagar.report.pairs import pair_heatmaps
from vhagar.report.problems import MOST_PROBLEMS, card_html, shown_problems
from vhagar.report.reading import read_store
from vhagar.report.sentences import answer, how, summary
from vhagar.report.table import table_html
from vhagar.sweep.runner import run_sweep
from vhagar.sweep.study import Study

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def test_the_summary_is_true_as_printed(study: StudyData) -> None:
    words = " ".join(summary(study))
    assert "12 questions about one and two" in words
    assert "3 of them are answered" in words
    assert "for 1 nothing can be attacked" in words
    assert "1 question is not finished yet" in words
    assert "class 0 with confidence 4.000" in words
    assert "no input of class 0 can be pushed into class 2 by linf(0.1), whatever" in words


def test_bounds_that_say_nothing_are_counted_and_marked(
    make_entry: Callable[..., Entry], make_study: Callable[..., StudyData]
) -> None:
    """Confidences up to 20 are known; a bound within 1 % of that, or above, is vacuous."""
    uppers = (19.0, 19.79, 19.81, 21.0, math.inf)
    entries = [make_entry({1: (1.0, upper)}) for upper in uppers]
    largest = make_entry({None: (20.0, 20.5)}, perturbation=None)
    found = make_study(*entries, largest)
    assert [found.is_vacuous(entry) for entry in found.entries] == [
        False, False, True, True, False, False,
    ]  # fmt: skip
    assert "2 bounds say next to nothing: no input was found" in " ".join(summary(found))
    assert table_html(found).count("vacuous") == 2
    assert "next to nothing" not in " ".join(summary(make_study(entries[0])))
    assert ">98.9<" in table_html(make_study(make_entry({1: (1.0, 19.762)})))


def test_classes_have_the_names_that_the_domain_gives_them(
    make_entry: Callable[..., Entry],
) -> None:
    entry = make_entry({1: (2.0, 3.0)})
    domain = Domain((2,), upper=[0.5, 0.5], name="ward", classes=["ill", "well", "gone"])
    entry = replace(entry, question=replace(entry.question, domain=domain))
    assert entry.pair == "ill to well"
    assert answer(entry).startswith("Proven: no input of class ill with")
    assert answer(entry).endswith("into class well by linf(0.1). Counterexample at 2.00.")


def test_features_and_classes_with_long_names_have_room(
    make_entry: Callable[..., Entry], make_study: Callable[..., StudyData]
) -> None:
    """Heatmaps, bars and the gallery have the domain's names; a witness is a table of features."""
    names = ["mean radius", "mean texture of the nuclei", "age"]
    classes = ["malignant growth", "benign", "none"]
    domain = Domain((3,), 0.0, [0.5, 1.0, 1.0], features=names, classes=classes, name="ward")
    entry = make_entry({1: (2.0, 3.0)}, perturbation="features([0,2],[0.1,0.2])")
    witness = replace(
        entry.witnesses[1], x=np.array([0.25, 0.5, 0.75]), x_p=np.array([0.375, 0.5, 0.75])
    )
    entry = replace(
        entry,
        question=replace(entry.question, domain=domain),
        group=replace(entry.group, domain=domain),
        witnesses={1: witness},
    )
    assert entry.group.label == "one, features([mean radius,age],[0.1,0.2]), over ward"
    other = replace(entry, number=99, question=replace(entry.question, source=1, targets=(2,)))
    study = make_study(entry, replace(other, targets=(replace(entry.targets[0], target=2),)))
    found = witness_figure(entry)
    assert found is not None
    assert found.features() == [
        ("mean radius", "0.25", "0.375"),
        ("mean texture of the nuclei", "0.5", "0.5"),
        ("age", "0.75", "0.75"),
    ]
    heatmap = pair_heatmaps(study)[0]
    for drawing in (heatmap.draw(), found.draw()):
        texts = [shape for shape in drawing.shapes if isinstance(shape, Text)]
        for shape in texts:
            reach = 0.58 * shape.size * len(shape.text)
            if shape.anchor == "end" and not shape.turned:
                assert shape.x - reach >= -2, shape
            elif shape.anchor == "end":
                assert shape.y + reach <= drawing.height, shape
        assert any("malignant growth" in shape.text for shape in texts)
    assert "benign" in table_html(study)
    card = card_html(entry)
    assert "<td>mean radius</td><td>0.25 to 0.375</td>" in card
    assert "texture" not in card
    assert "malignant growth to benign" in card


def test_answers_in_words(study: StudyData) -> None:
    texts = [answer(entry) for entry in study.entries]
    assert texts[0] == "The maximal confidence in class 0 is 20.00..20.50."
    assert texts[1] == (
        "Proven: no input of class 0 with confidence above 3.00 can be pushed into class 1 by "
        "linf(0.1). Counterexample at 2.00."
    )
    assert "whatever its confidence" in texts[2]
    assert texts[4] == "Nothing is proven yet about class 1 under linf(0.1)."


def test_counterexamples_in_words(make_entry: Callable[..., Entry]) -> None:
    several = make_entry({1: (2.0, 3.0), 2: (1.0, 2.5)})
    assert answer(several).endswith(
        "into another class by linf(0.1). Counterexample at 2.00, pushed into class 1."
    )
    one = make_entry({1: (2.0, 3.0)})
    assert one.witness is not None
    tied = replace(one, witnesses={1: replace(one.witness, tie=True)})
    assert answer(tied).endswith("Counterexample at 2.00: an exact tie with class 1.")
    assert answer(make_entry({1: (0.0, 3.0)})).endswith(" No counterexample was found.")


def test_how_it_was_proved(study: StudyData) -> None:
    words = " ".join(how(study))
    assert "11 upper bounds: twin dual formula" in words
    assert "1 certificate, named in the table" in words


def test_the_page_says_what_confidence_is(study: StudyData) -> None:
    assert "is the margin between its class" in page(study).split("</header>")[0]


def test_the_page_needs_nothing_from_elsewhere(study: StudyData) -> None:
    content = page(study)
    addresses = re.findall(r"""(?:src|href|action)\s*=\s*["']?([^"'\s>]+)""", content)
    assert addresses
    for address in addresses:
        assert address.startswith(("#", "data:")), address
    assert "http://" not in content
    assert "https://" not in content
    assert not re.search(r"@import|url\(", content)
    assert "proof-7.json" in content


def test_markup_in_names_is_text(
    make_entry: Callable[..., Entry], make_study: Callable[..., StudyData]
) -> None:
    found = make_study(make_entry({1: (1.0, 2.0)}, perturbation="linf(0.1)"))
    object.__setattr__(found, "name", "<img src=x onerror=alert(1)>")
    assert "<img src=x" not in page(found)


def test_a_large_study_shows_the_weakest_in_detail(
    make_entry: Callable[..., Entry], make_study: Callable[..., StudyData]
) -> None:
    entries = [make_entry({1: (0.0, 1.0 + k)}) for k in range(MOST_PROBLEMS)]
    weakest = make_entry({1: (3.0, 4.0)})
    shown = shown_problems(make_study(*entries, weakest))
    assert len(shown) == MOST_PROBLEMS
    assert weakest in shown


@pytest.mark.subprocess
def test_an_empty_store_has_a_page(tmp_path: Path) -> None:
    """Before anything is worked on."""
    import numpy as np

    import vhagar
    from vhagar.network import Affine, Network
    from vhagar.sweep.runner import open_study

    network = Network((Affine(np.eye(3), np.zeros(3), (3,), (3,)),), (3,))
    vhagar.write_onnx(network, tmp_path / "n.onnx")
    study = Study((str(tmp_path / "n.onnx"),), ("linf(0.1)",), confidence=True, timeout=10.0)
    store, _, _ = open_study(study, tmp_path / "s.db")
    store.close()
    assert "9 questions" in page(read_store(tmp_path / "s.db"))
    # And once it is: inputs that are no images are shown, too.
    run_sweep(study, tmp_path / "s.db", resume=True).close()
    content = page(read_store(tmp_path / "s.db"))
    assert "9 of them are answered" in content
    assert "problem-1" in content


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: pip install 'vhagar[browser]'"
    )
    if CHROMIUM is None:
        pytest.skip("there is no Chromium; install it, or name it in CHROMIUM")
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=CHROMIUM, args=list(_FLAGS))
        yield chromium
        chromium.close()


def _screen(size: tuple[int, int]) -> str:
    return "desktop" if size == DESKTOP else "phone"


DESKTOP, PHONE = (1280, 900), (390, 844)


@pytest.fixture(params=[DESKTOP, pytest.param(PHONE, marks=pytest.mark.slow)], ids=_screen)
def opened(
    request: pytest.FixtureRequest, browser: Any, study: StudyData, tmp_path: Path
) -> Iterator[Any]:
    """The page in a browser. Whatever the browser complains about is an error at the end."""
    width, height = request.param
    write_page(study, tmp_path / "report.html")
    scheme = "dark" if width < 500 else "light"
    tab = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
    complaints: list[str] = []
    tab.on("console", lambda message: complaints.append(message.text))
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    asked: list[str] = []
    tab.on("request", lambda sent: asked.append(sent.url))
    tab.goto((tmp_path / "report.html").as_uri())
    yield tab
    _require_fit(tab)
    assert complaints == []
    assert all(url.startswith(("file:", "data:")) for url in asked)
    tab.close()


def _require_fit(tab: Any) -> None:
    """Nothing sticks out of the page, but for what scrolls within a frame of its own."""
    out = tab.evaluate(
        """() => {
          const wide = document.documentElement.scrollWidth > innerWidth;
          const frames = new Set(document.querySelectorAll('.scroll, nav, pre'));
          const found = [...document.querySelectorAll('main *')].filter((node) => {
            for (let up = node; up; up = up.parentElement) if (frames.has(up)) return false;
            if (node.closest('svg') && node.tagName !== 'svg') return false;
            const box = node.getBoundingClientRect();
            return box.width > 0 && (box.right > innerWidth + 1 || box.left < -1);
          });
          return [wide, found.map((node) => node.outerHTML.slice(0, 100))];
        }"""
    )
    assert out == [False, []]


def _shown(tab: Any, query: str) -> int:
    return sum(node.is_visible() for node in tab.query_selector_all(query))


@pytest.mark.parametrize("opened", [DESKTOP, PHONE], indirect=True, ids=_screen)
def test_texts_in_figures_are_not_cut_off(opened: Any) -> None:
    cut = opened.evaluate(
        """() => [...document.querySelectorAll('svg')].flatMap((svg) => {
          const box = svg.getBoundingClientRect();
          if (!box.width) return [];
          return [...svg.querySelectorAll('text')].filter((text) => {
            const own = text.getBoundingClientRect();
            return own.right > box.right + 2 || own.left < box.left - 2
              || own.bottom > box.bottom + 2 || own.top < box.top - 2;
          }).map((text) => text.textContent);
        })"""
    )
    assert cut == []


def test_the_heatmaps_change_with_the_buttons(opened: Any) -> None:
    for measure in ("lower", "gap", "upper"):
        opened.click(f'#pairs button[data-value="{measure}"]')
        assert _shown(opened, "#pairs .pick > *") == 1
        shown = opened.query_selector("#pairs .pick > .on")
        assert shown.get_attribute("data-measure") == measure
        _require_fit(opened)
    opened.select_option('#pairs select[data-name="group"]', "1")
    assert opened.query_selector("#pairs .pick > .on").get_attribute("data-group") == "1"


def test_the_image_and_the_comparison_change_with_the_lists(opened: Any) -> None:
    opened.select_option('#spatial select[data-name="classes"]', "0 to 2")
    assert _shown(opened, "#spatial .pick > *") == 1
    assert "0 to 2" in opened.inner_text("#spatial .pick > .on")
    opened.select_option('#compare select[data-name="pair"]', "1")
    assert _shown(opened, "#compare .pick > *") == 1


def test_a_cell_opens_its_problem(opened: Any) -> None:
    opened.click('#pairs .on a[href="#problem-4"]')
    opened.wait_for_selector("#problem-4.on")
    assert _shown(opened, ".problem") == 1
    assert "9.00 can be pushed into class 0" in opened.inner_text("#problem-4")
    assert opened.input_value("#problem-picker") == "problem-4"
    opened.select_option("#problem-picker", "problem-2")
    opened.wait_for_selector("#problem-2.on")
    opened.click('.card[href="#problem-6"]')
    opened.wait_for_selector("#problem-6.on")
    assert "vhagar verify two.onnx --perturbation 'linf(0.1)'" in opened.inner_text("#problem-6")


def test_the_table_sorts_and_filters(opened: Any) -> None:
    def column(name: str) -> list[str]:
        heads = [head.inner_text() for head in opened.query_selector_all(".sortable thead th")]
        place = [re.sub(r"\W+$", "", head.strip()) for head in heads].index(name) + 1
        cells = opened.query_selector_all(f".sortable tbody tr:not([hidden]) td:nth-child({place})")
        return [cell.get_attribute("data-value") or cell.inner_text() for cell in cells]

    opened.click('.sortable th button:text-is("upper")')
    uppers = [float(value) for value in column("upper")]
    assert uppers == sorted(uppers)
    assert len(uppers) == 12
    opened.click('.sortable th button:text-is("upper")')
    assert [float(value) for value in column("upper")] == uppers[::-1]
    opened.fill("#filter", "two closed")
    assert column("network") == ["two"]


def test_light_and_dark(opened: Any) -> None:
    def background() -> str:
        return str(opened.evaluate("getComputedStyle(document.body).backgroundColor"))

    before = background()
    opened.click("#theme")
    assert background() != before
    opened.click("#theme")
    assert background() == before


def test_on_paper(opened: Any) -> None:
    opened.set_viewport_size({"width": 720, "height": 1000})  # a sheet of A4 within its margins
    opened.emulate_media(media="print")
    assert not opened.is_visible("nav")
    assert opened.is_visible("#pairs .on svg")
    white = opened.evaluate("getComputedStyle(document.body).backgroundColor")
    assert white == "rgb(255, 255, 255)"


def test_without_scripts_everything_is_there(
    browser: Any, study: StudyData, tmp_path: Path
) -> None:
    write_page(study, tmp_path / "report.html")
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto((tmp_path / "report.html").as_uri())
    assert _shown(tab, ".problem") == 12
    context.close()

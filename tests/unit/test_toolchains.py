import base64
import hashlib
import json
import os
import subprocess
import sys
import zipfile

import pytest

from difftest import toolchains
from difftest.errors import ToolchainError, UsageError

CONTENT = b"\x7fELF not really" * 1000


@pytest.fixture
def offers(tmp_path, monkeypatch):
    """A folder of wheels that pip's own configuration points to, and an empty cache."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    monkeypatch.setenv("MLIR_DIFFTEST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.delenv("PIP_CONFIG_FILE", raising=False)
    return folder


def make_wheel(folder, version, *, recorded=CONTENT, member=toolchains.MEMBER):
    digest = base64.urlsafe_b64encode(hashlib.sha256(recorded).digest()).rstrip(b"=").decode()
    info = f"enzyme_ad-{version}.dist-info"
    path = folder / f"enzyme_ad-{version}-py311-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(member, CONTENT)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: enzyme-ad\nVersion: {version}\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py311-none-any\n")
        wheel.writestr(f"{info}/RECORD", f"{member},sha256={digest},{len(CONTENT)}\n{info}/RECORD,,\n")
    return path


def left_over():
    root = toolchains.cache_folder() / "toolchains" / "enzyme-ad"
    return sorted(p.name for p in root.iterdir()) if root.is_dir() else []


@pytest.mark.parametrize(
    ("spec", "parsed"),
    [
        ("enzyme-ad==0.0.15", ("enzyme-ad", "0.0.15")),
        ("enzyme-ad@0.0.15", ("enzyme-ad", "0.0.15")),
        ("Enzyme_AD", ("enzyme-ad", None)),
        ("enzyme-ad@latest", ("enzyme-ad", None)),
    ],
)
def test_specs_are_read(spec, parsed):
    assert toolchains.parse_spec(spec) == parsed


@pytest.mark.parametrize("spec", ["jax==1", "enzyme-ad==banana", "", "enzyme-ad==1; rm -rf /"])
def test_other_specs_are_usage_errors(spec):
    with pytest.raises(UsageError):
        toolchains.parse_spec(spec)


def test_install_keeps_the_one_file_and_tells_of_progress(offers):
    make_wheel(offers, "0.0.98")
    seen = []
    made = toolchains.install("enzyme-ad==0.0.98", progress=lambda *row: seen.append(row))
    assert made.library.read_bytes() == CONTENT
    assert left_over() == ["0.0.98"]
    assert sorted(p.name for p in made.folder.iterdir()) == ["enzyme_call.so", "manifest.json"]
    assert seen[-1] == ("unpacking enzyme_call.so", len(CONTENT), len(CONTENT))
    assert toolchains.find("enzyme-ad@0.0.98") == made
    assert made.python_tag == "py311"
    toolchains.check(made)
    toolchains.verify(made)


def test_versions_live_side_by_side_and_the_newest_is_found(offers):
    for version in ("0.0.9", "0.0.98"):
        make_wheel(offers, version)
        toolchains.install(f"enzyme-ad=={version}")
    assert [t.version for t in toolchains.list_installed()] == ["0.0.9", "0.0.98"]
    newest = toolchains.find("enzyme-ad")
    assert newest is not None
    assert newest.label == "enzyme-ad@0.0.98"
    toolchains.remove("enzyme-ad==0.0.98")
    assert [t.version for t in toolchains.list_installed()] == ["0.0.9"]
    with pytest.raises(ToolchainError, match="not installed"):
        toolchains.remove("enzyme-ad==0.0.98")


def test_ensure_installs_once(offers):
    wheel = make_wheel(offers, "0.0.98")
    first = toolchains.ensure("enzyme-ad@0.0.98")
    wheel.unlink()
    assert toolchains.ensure("enzyme-ad@0.0.98") == first


def test_a_wheel_that_does_not_match_its_record_leaves_nothing(offers):
    make_wheel(offers, "0.0.98", recorded=b"something else")
    with pytest.raises(ToolchainError, match="does not match the hash"):
        toolchains.install("enzyme-ad==0.0.98")
    assert left_over() == []


def test_a_wheel_without_the_library_leaves_nothing(offers):
    make_wheel(offers, "0.0.98", member="enzyme_ad/other.so")
    with pytest.raises(ToolchainError, match="cannot be unpacked"):
        toolchains.install("enzyme-ad==0.0.98")
    assert left_over() == []


def test_a_version_that_is_not_offered_is_one_sentence(offers):
    make_wheel(offers, "0.0.98")
    with pytest.raises(ToolchainError, match=r"no enzyme-ad==0.0.1 .*offered: 0.0.98") as caught:
        toolchains.install("enzyme-ad==0.0.1")
    assert "\n" not in str(caught.value)
    assert left_over() == []


def test_an_empty_index_is_one_sentence(offers):
    with pytest.raises(ToolchainError, match=r"cannot fetch enzyme-ad==0\.0\.1") as caught:
        toolchains.install("enzyme-ad==0.0.1")
    assert "\n" not in str(caught.value)


def test_damage_is_noticed_on_use(offers):
    make_wheel(offers, "0.0.98")
    made = toolchains.install("enzyme-ad==0.0.98")
    os.truncate(made.library, 10)
    with pytest.raises(ToolchainError, match="damaged"):
        toolchains.ensure("enzyme-ad@0.0.98")


def test_full_verification_sees_what_the_cheap_check_cannot(offers):
    make_wheel(offers, "0.0.98")
    made = toolchains.install("enzyme-ad==0.0.98")
    made.library.write_bytes(CONTENT[:-1] + b"!")
    os.utime(made.library, ns=(made.mtime_ns, made.mtime_ns))
    toolchains.check(made)
    with pytest.raises(ToolchainError, match="damaged"):
        toolchains.verify(made)


def test_a_killed_installation_is_cleaned_up_by_the_next(offers):
    make_wheel(offers, "0.0.98")
    stale = toolchains.cache_folder() / "toolchains" / "enzyme-ad" / ".incoming-dead"
    stale.mkdir(parents=True)
    (stale / "half.whl").write_bytes(b"x")
    toolchains.install("enzyme-ad==0.0.98")
    assert left_over() == ["0.0.98"]


def test_a_folder_without_a_manifest_is_not_a_toolchain_and_is_replaced(offers):
    make_wheel(offers, "0.0.98")
    broken = toolchains.cache_folder() / "toolchains" / "enzyme-ad" / "0.0.98"
    broken.mkdir(parents=True)
    (broken / "manifest.json").write_text(json.dumps({"name": "enzyme-ad"}))
    assert toolchains.list_installed() == ()
    assert toolchains.install("enzyme-ad==0.0.98").library.read_bytes() == CONTENT


def test_two_processes_that_install_at_once_both_succeed(offers):
    make_wheel(offers, "0.0.98")
    code = "from difftest import toolchains; toolchains.install('enzyme-ad==0.0.98')"
    running = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(2)]
    assert [p.wait(120) for p in running] == [0, 0]
    assert left_over() == ["0.0.98"]


def test_an_interpreter_that_does_not_fit_is_refused(offers, tmp_path):
    make_wheel(offers, "0.0.98")
    other = tmp_path / "python9"
    other.write_text("#!/bin/sh\nprintf 9.9\n")
    other.chmod(0o755)
    with pytest.raises(ToolchainError, match=r"needs Python 3.11"):
        toolchains.install("enzyme-ad==0.0.98", python=str(other))
    made = toolchains.install("enzyme-ad==0.0.98")
    with pytest.raises(ToolchainError, match=r"is Python 9.9"):
        toolchains.interpreter_for(made, python=str(other))
    with pytest.raises(ToolchainError, match="does not run"):
        toolchains.interpreter_for(made, python=str(tmp_path / "nothing"))


def test_no_fitting_interpreter_is_said(offers, monkeypatch):
    make_wheel(offers, "0.0.98")
    made = toolchains.install("enzyme-ad==0.0.98")
    monkeypatch.setattr(toolchains.sys, "version_info", type("V", (), {"major": 9, "minor": 9}))
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ToolchainError, match=r"no working python3.11 on PATH.*--python"):
        toolchains.interpreter_for(made)


def test_a_cache_that_cannot_be_written_is_one_sentence(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MLIR_DIFFTEST_CACHE", str(tmp_path / "file"))
    with pytest.raises(ToolchainError, match="cannot write to the cache folder"):
        toolchains.install("enzyme-ad==0.0.98")

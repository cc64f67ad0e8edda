"""Compiler versions side by side: fetch enzyme-ad wheels through pip, keep the one file we need, check it.

Layout below the cache folder (`MLIR_DIFFTEST_CACHE`, else the user cache folder of the platform):
`toolchains/enzyme-ad/VERSION/{enzyme_call.so, manifest.json}`. A version is a folder that appears by one rename, so
it is whole or absent; a lock file keeps two processes from fetching one version twice. Nothing here prints.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Generator
from dataclasses import asdict, dataclass
from pathlib import Path

from packaging.utils import parse_wheel_filename
from packaging.version import InvalidVersion, Version
from platformdirs import user_cache_path

from difftest.errors import ToolchainError, UsageError

ENZYME = "enzyme-ad"
LIBRARY = "enzyme_call.so"
MEMBER = f"enzyme_ad/jax/{LIBRARY}"
PYTHON_VERSION = "3.11"  # enzyme-ad 0.0.14-0.0.16: Requires-Python ==3.11.* (BINDINGS 4)
WHEEL_BYTES = 123_000_000  # about the size of one wheel: only the progress display depends on it
PIP_TIMEOUT = 1800.0
CHUNK = 1 << 22

Progress = Callable[[str, int, int], None]
"""`progress(message, done, total)` in bytes; `total` 0 when unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain:
    """One installed compiler version."""

    name: str
    version: str
    folder: Path
    wheel: str
    python_tag: str
    sha256: str
    size: int
    mtime_ns: int
    python: str = ""

    @property
    def label(self) -> str:
        """How users and targets name it: `enzyme-ad@0.0.16`."""
        return f"{self.name}@{self.version}"

    @property
    def library(self) -> Path:
        """The extension module a worker loads."""
        return self.folder / LIBRARY


def cache_folder() -> Path:
    """Where everything we fetch or remember between runs lives."""
    chosen = os.environ.get("MLIR_DIFFTEST_CACHE")
    return Path(chosen) if chosen else user_cache_path("mlir-difftest")


def parse_spec(spec: str) -> tuple[str, str | None]:
    """`enzyme-ad==0.0.15`, `enzyme-ad@0.0.15`, `enzyme-ad`, `enzyme-ad@latest` -> name and version (None: newest)."""
    match = re.fullmatch(r"\s*([A-Za-z0-9_.-]+?)\s*(?:(?:==|@)\s*(\S+?))?\s*", spec)
    name = match.group(1).lower().replace("_", "-") if match else ""
    if match is None or name != ENZYME:
        raise UsageError(f"unknown toolchain '{spec}': expected {ENZYME}==VERSION")
    version = match.group(2)
    if version in (None, "latest"):
        return name, None
    try:
        Version(version)
    except InvalidVersion:
        raise UsageError(f"'{version}' is not a version: expected {ENZYME}==VERSION") from None
    return name, version


def list_installed() -> tuple[Toolchain, ...]:
    """All installed versions, oldest first. Folders without a readable manifest are not installed."""
    root = cache_folder() / "toolchains" / ENZYME
    found = [_read_manifest(folder) for folder in root.iterdir()] if root.is_dir() else []
    return tuple(sorted((t for t in found if t is not None), key=lambda t: Version(t.version)))


def find(spec: str) -> Toolchain | None:
    """The installed toolchain that `spec` names (the newest installed one without a version), or None."""
    _, version = parse_spec(spec)
    installed = list_installed()
    if version is None:
        return installed[-1] if installed else None
    return next((t for t in installed if Version(t.version) == Version(version)), None)


def _read_manifest(folder: Path) -> Toolchain | None:
    try:
        entries = json.loads((folder / "manifest.json").read_text())
        return Toolchain(folder=folder, **entries)
    except (OSError, ValueError, TypeError):
        return None


def verify(toolchain: Toolchain) -> None:
    """Hash the library again. Raises ToolchainError when it is not what was installed."""
    if not toolchain.library.is_file() or _hash_file(toolchain.library) != toolchain.sha256:
        raise _damaged(toolchain)


def check(toolchain: Toolchain) -> None:
    """The cheap form of `verify`, done on every use: size and modification time."""
    try:
        status = toolchain.library.stat()
    except OSError:
        raise _damaged(toolchain) from None
    if (status.st_size, status.st_mtime_ns) != (toolchain.size, toolchain.mtime_ns):
        raise _damaged(toolchain)


def _damaged(toolchain: Toolchain) -> ToolchainError:
    return ToolchainError(
        f"{toolchain.label} in {toolchain.folder} is damaged: remove it with "
        f"`difftest toolchain remove {toolchain.name}=={toolchain.version}` and install it again"
    )


def _hash_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def remove(spec: str) -> Toolchain:
    """Delete an installed version and return what it was. ToolchainError when it is not installed."""
    name, version = parse_spec(spec)
    if version is None:
        raise UsageError(f"say which version to remove: {name}==VERSION")
    with _lock():
        found = find(spec)
        if found is None:
            raise ToolchainError(f"{name}=={version} is not installed")
        doomed = found.folder.with_name(f".removed-{found.version}-{os.getpid()}")
        found.folder.rename(doomed)
        shutil.rmtree(doomed, ignore_errors=True)
    return found


@contextlib.contextmanager
def _lock() -> Generator[None]:
    """One process at a time changes the toolchain folder; the lock goes with the process that holds it."""
    root = cache_folder() / "toolchains"
    try:
        root.mkdir(parents=True, exist_ok=True)
        handle = (root / ".lock").open("w")
    except OSError as error:
        raise ToolchainError(f"cannot write to the cache folder {root}: {error.strerror}") from None
    with handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


# --- interpreters -------------------------------------------------------------------------------------------


def interpreter_for(toolchain: Toolchain, *, python: str | None = None) -> str:
    """The interpreter that can load the toolchain's extension module.

    The one asked for, now or at installation, else the running one, else the fitting one on PATH. ToolchainError when
    there is none that fits the wheel's tag.
    """
    wanted = _tag_version(toolchain.python_tag)
    asked = python or toolchain.python
    if asked:
        found = interpreter_version(asked)
        if found == wanted:
            return shutil.which(asked) or asked
        what = "does not run" if found is None else f"is Python {found}"
        raise ToolchainError(f"{toolchain.label} needs Python {wanted}, but {asked} {what}")
    if f"{sys.version_info.major}.{sys.version_info.minor}" == wanted:
        return sys.executable
    candidate = shutil.which(f"python{wanted}")
    if candidate is not None and interpreter_version(candidate) == wanted:
        return candidate
    raise ToolchainError(
        f"{toolchain.label} needs Python {wanted}: this is {sys.version_info.major}.{sys.version_info.minor} and "
        f"there is no working python{wanted} on PATH; name one with --python"
    )


def interpreter_version(python: str) -> str | None:
    """`major.minor` of an interpreter, or None when it does not run."""
    command = [python, "-c", "import sys; sys.stdout.write('%d.%d' % sys.version_info[:2])"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _tag_version(tag: str) -> str:
    match = re.fullmatch(r"(?:cp|py)(\d)(\d+)", tag)
    return f"{match.group(1)}.{match.group(2)}" if match else PYTHON_VERSION


# --- fetching -----------------------------------------------------------------------------------------------


def ensure(label: str, *, progress: Progress | None = None) -> Toolchain:
    """The toolchain that a target label names, fetched on first use."""
    found = find(label)
    if found is None:
        return install(label, progress=progress)
    check(found)
    return found


def latest(name: str = ENZYME) -> str:
    """The newest version that the package index offers for our platform."""
    parse_spec(name)
    done = _run_pip(["index", "versions", name, "--json", *_WHEEL_OPTIONS])
    try:
        return str(json.loads(done.stdout)["latest"])
    except (ValueError, KeyError):
        raise ToolchainError(_why(done.stderr, f"{name}")) from None


_WHEEL_OPTIONS = ("--only-binary=:all:", "--python-version", PYTHON_VERSION)


def install(spec: str, *, python: str | None = None, progress: Progress | None = None) -> Toolchain:
    """Fetch and unpack a version unless it is there. Raises ToolchainError with one clear sentence.

    `python` is the interpreter that will run it; it is checked first and remembered.
    """
    name, version = parse_spec(spec)
    if python is not None and interpreter_version(python) != PYTHON_VERSION:
        raise ToolchainError(f"{name} needs Python {PYTHON_VERSION}, but {python} is not one")
    version = version or latest(name)
    with _lock():
        found = find(f"{name}=={version}")
        if found is not None:
            check(found)
            return found
        root = cache_folder() / "toolchains" / name
        root.mkdir(parents=True, exist_ok=True)
        for stale in root.glob(".incoming-*"):  # left by a killed installation: we hold the lock
            shutil.rmtree(stale, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix=".incoming-", dir=root, ignore_cleanup_errors=True) as temporary:
            wheel = _download(f"{name}=={version}", Path(temporary), progress)
            return _unpack(wheel, root, Path(temporary), python or "", progress)


def _download(requirement: str, folder: Path, progress: Progress | None) -> Path:
    command = ["download", "--no-deps", *_WHEEL_OPTIONS, "--no-cache-dir", "--dest", str(folder), requirement]

    def report() -> None:
        if progress is not None:
            done = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())
            message = f"fetching {requirement} (about {WHEEL_BYTES // 1_000_000} MB, first use)"
            progress(message, min(done, WHEEL_BYTES), WHEEL_BYTES)

    done = _run_pip(command, temporary=folder, poll=report)
    wheels = list(folder.glob("*.whl"))
    if done.returncode != 0 or len(wheels) != 1:
        raise ToolchainError(_why(done.stderr, requirement))
    return wheels[0]


def _run_pip(
    arguments: list[str], *, temporary: Path | None = None, poll: Callable[[], None] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run pip with its own configuration; `poll` is called while it works."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments]
    env = dict(os.environ)
    if temporary is not None:
        env["TMPDIR"] = str(temporary)  # so that what is on its way can be measured, and goes with the folder
    deadline = time.monotonic() + PIP_TIMEOUT
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=env)
        try:
            while process.poll() is None:
                if time.monotonic() > deadline:
                    raise ToolchainError(f"pip did not finish within {PIP_TIMEOUT:.0f} s")
                if poll is not None:
                    poll()
                time.sleep(0.05)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(command, process.returncode, out.read(), err.read())


def _why(stderr: str, requirement: str) -> str:
    """Pip's complaint as one sentence."""
    if "No module named pip" in stderr:
        return f"cannot fetch {requirement}: this Python has no pip"
    offered = re.search(r"from versions: ([^)]*)\)", stderr)
    connection = re.search(
        r"(Failed to establish|Name or service|Temporary failure|Connection|ProxyError|timed out)", stderr
    )
    if connection is not None and (offered is None or offered.group(1) == "none"):
        return f"cannot fetch {requirement}: the package index cannot be reached"
    if offered is not None and offered.group(1) != "none":
        return f"there is no {requirement} for Python {PYTHON_VERSION} on this platform (offered: {offered.group(1)})"
    if "No matching distribution" in stderr:
        return f"cannot fetch {requirement}: the package index offers nothing (no network, or no such package)"
    errors = [line for line in stderr.splitlines() if line.startswith("ERROR")] or stderr.splitlines()[-1:] or ["?"]
    return f"cannot fetch {requirement}: pip says {errors[0].removeprefix('ERROR: ')}"


def _unpack(wheel: Path, root: Path, temporary: Path, python: str, progress: Progress | None) -> Toolchain:
    name, version, _, tags = parse_wheel_filename(wheel.name)
    folder = temporary / "unpacked"
    folder.mkdir()
    library = folder / LIBRARY
    try:
        with zipfile.ZipFile(wheel) as archive:
            digest = _extract(archive, library, progress)
            expected = _recorded_hash(archive)
    except (zipfile.BadZipFile, KeyError, OSError) as error:
        raise ToolchainError(f"{wheel.name} cannot be unpacked: {error}") from None
    if base64.urlsafe_b64encode(bytes.fromhex(digest)).rstrip(b"=").decode() != expected:
        raise ToolchainError(f"{wheel.name} is damaged: {MEMBER} does not match the hash in its RECORD")
    status = library.stat()
    toolchain = Toolchain(
        name=str(name),
        version=str(version),
        folder=root / str(version),
        wheel=wheel.name,
        python_tag=sorted(t.interpreter for t in tags)[0],
        sha256=digest,
        size=status.st_size,
        mtime_ns=status.st_mtime_ns,
        python=python,
    )
    entries = {k: v for k, v in asdict(toolchain).items() if k != "folder"}
    (folder / "manifest.json").write_text(json.dumps(entries, indent=2) + "\n")
    if toolchain.folder.exists():  # without a readable manifest, or `find` had returned it
        shutil.rmtree(toolchain.folder)
    folder.rename(toolchain.folder)
    return toolchain


def _extract(archive: zipfile.ZipFile, library: Path, progress: Progress | None) -> str:
    """Unpack the one member we need; its SHA-256."""
    total = archive.getinfo(MEMBER).file_size
    digest = hashlib.sha256()
    done = 0
    with archive.open(MEMBER) as source, library.open("wb") as target:
        while chunk := source.read(CHUNK):
            digest.update(chunk)
            target.write(chunk)
            done += len(chunk)
            if progress is not None:
                progress(f"unpacking {LIBRARY}", done, total)
    return digest.hexdigest()


def _recorded_hash(archive: zipfile.ZipFile) -> str:
    """The urlsafe base64 SHA-256 that the wheel's RECORD gives for our member (PEP 427)."""
    record = next((n for n in archive.namelist() if n.endswith(".dist-info/RECORD")), None)
    if record is None:
        raise KeyError("no RECORD")
    for line in archive.read(record).decode().splitlines():
        path, algorithm_and_hash, _size = line.rsplit(",", 2)
        if path == MEMBER and algorithm_and_hash.startswith("sha256="):
            return algorithm_and_hash.removeprefix("sha256=")
    raise KeyError(f"RECORD has no hash of {MEMBER}")

"""Maven builds for the interop suites, kept by the hash of their sources.

The cache is $CASTOR_CACHE, or ~/.cache/castor-interop. An entry is complete or absent: Maven writes beside it
and the finished folder is renamed into place, so two runs at the same time do no harm.
"""
import hashlib
import os
import pathlib
import shutil
import subprocess
import tempfile

CACHE = pathlib.Path(os.environ.get("CASTOR_CACHE") or pathlib.Path.home() / ".cache" / "castor-interop")


def dependencies(pom):
    """Folder with the jars that a pom depends on."""
    return _cached(f"{pom.parent.name}-{pom.stem}", [pom], lambda out: _mvn(
        "-f", pom, "dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={out}"))


def package(project):
    """Folder with the jar that `mvn package` makes of a project; its pom takes the folder as suite.output."""
    sources = sorted(p for p in [project / "pom.xml", *project.glob("src/**/*")] if p.is_file())
    return _cached(f"{project.name}-package", sources, lambda out: _mvn(
        "-f", project / "pom.xml", "package", f"-Dsuite.output={out}"))


def _mvn(*args):
    done = subprocess.run(["mvn", "-q", "-B", *map(str, args)], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    if done.returncode != 0:
        raise SystemExit(f"mvn failed:\n{done.stdout}")


def _cached(name, sources, build):
    digest = hashlib.sha256()
    for source in sources:
        digest.update(f"{source.name}\0{source.stat().st_size}\0".encode() + source.read_bytes())
    entry = CACHE / f"{name}-{digest.hexdigest()[:16]}"
    if entry.is_dir():
        return entry
    CACHE.mkdir(parents=True, exist_ok=True)
    part = pathlib.Path(tempfile.mkdtemp(prefix=f"{name}-", dir=CACHE))
    try:
        build(part)
        part.rename(entry)
    except OSError:
        if not entry.is_dir():
            raise
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return entry

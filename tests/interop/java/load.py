#!/usr/bin/env python3
"""Runs Load of the Java suite: load.py NAMESRV TOPIC [THREADS [PER_SECOND]]. It is meant for castor chaos -load."""
import os
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))

import maven  # noqa: E402


def main():
    classpath = f"{maven.package(HERE)}/*:{maven.dependencies(HERE / 'pom.xml')}/*"
    os.execvp("java", ["java", "-Xmx256m", "-XX:+UseSerialGC", f"-Duser.home={tempfile.mkdtemp(prefix='castor-load-')}",
                       "-cp", classpath, "castor.interop.Load", *sys.argv[1:]])


if __name__ == "__main__":
    main()

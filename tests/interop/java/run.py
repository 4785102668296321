#!/usr/bin/env python3
"""The Java suite: src/ against the official client 5.5.0. The contract with its caller is in ../run."""
import os
import pathlib
import sys

import maven

HERE = pathlib.Path(__file__).resolve().parent


def main():
    classpath = f"{maven.package(HERE)}/*:{maven.dependencies(HERE / 'pom.xml')}/*"
    home = pathlib.Path(os.environ["CLUSTER_DIR"]) / "java"
    home.mkdir(exist_ok=True)
    os.execvp("java", ["java", "-Xmx768m", "-XX:+UseSerialGC", f"-Duser.home={home}",
                       "-cp", classpath, "castor.interop.Main", os.environ["NAMESRV"], *sys.argv[1:]])


if __name__ == "__main__":
    main()

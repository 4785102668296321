"""Tests of the comparison that need no broker: python3 -m unittest discover -s tests/bench"""
import contextlib
import io
import json
import pathlib
import re
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import unittest
import xml.etree.ElementTree as xml

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "interop" / "lib"), str(HERE.parent / "interop" / "controller")]
import broker  # noqa: E402
import report  # noqa: E402
import rows  # noqa: E402
import steps  # noqa: E402
import svg  # noqa: E402

SVG = "{http://www.w3.org/2000/svg}"


def row(name, more_is_better, target, bound=None):
    return rows.Row(name, f"title of {name}", "u", rows.figure("l", name), ("l",), more_is_better, target, bound)


def samples(java, castor, name="x"):
    return {rows.JAVA: [{"l": {name: v}} for v in java], rows.CASTOR: [{"l": {name: v}} for v in castor]}


class Evaluate(unittest.TestCase):
    def only(self, more_is_better, target, java, castor):
        return report.evaluate([row("x", more_is_better, target)], samples(java, castor))[0]

    def test_more_is_better(self):
        entry = self.only(True, 5, [10, 30, 20], [99, 100, 150])
        self.assertEqual((20, 100, 5, True), (entry["java"], entry["castor"], entry["ratio"], entry["ok"]))

    def test_less_is_better(self):
        entry = self.only(False, 10, [40], [5])
        self.assertEqual((8, False), (entry["ratio"], entry["ok"]))

    def test_a_bound_is_of_castor_alone(self):
        for more_is_better, castor, ok, wanted in (True, 0.7, True, "≥ 0.600"), (True, 0.5, False, "≥ 0.600"), \
                (False, 0.5, True, "≤ 0.600"), (False, 0.7, False, "≤ 0.600"):
            entry = report.evaluate([row("x", more_is_better, 1, 0.6)], samples([0.01], [castor]))[0]
            self.assertEqual((ok, wanted), (entry["ok"], entry["wanted"]))
        self.assertFalse(report.evaluate([row("x", False, 1, 0.6)], samples([1], []))[0]["ok"])

    def test_a_missing_side_is_no_success(self):
        for java, castor in ([], [1]), ([1], []), ([], []), ([0], [1]):
            entry = self.only(True, 0.1, java, castor)
            self.assertEqual((None, False, "–"), (entry["ratio"], entry["ok"], report.verdict(entry)))

    def test_a_round_without_the_load_does_not_count(self):
        given = samples([1, 2, 3], [10, 20, 30])
        given[rows.CASTOR].append({"other": {}})
        self.assertEqual(20, report.evaluate([row("x", True, 1)], given)[0]["castor"])


class Table(unittest.TestCase):
    def test_numbers(self):
        for value, text in {0: "0", None: "–", 0.0123456: "0.0123", 1: "1.00", 9.996: "10.00", 12.34: "12.3", 123.4: "123",
                            28_345.6: "28,300", 1_079_999: "1,080,000"}.items():
            self.assertEqual(text, report.number(value))

    def test_rows(self):
        entries = report.evaluate([row("x", True, 5), row("y", True, 1)],
                                  {rows.JAVA: [{"l": {"x": 2, "y": 3}}], rows.CASTOR: [{"l": {"x": 8, "y": 30}}]})
        lines = report.table(entries).splitlines()
        self.assertEqual(4, len(lines))
        self.assertEqual(1, len({len(line) for line in lines}))
        cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
        self.assertEqual(["title of x (u)", "2.00", "8.00", "4.00×", "≥ 5.00×", "MISS"], cells[2])
        self.assertEqual(["10.0×", "≥ 1.00×", "ok"], cells[3][3:])


class Docs(unittest.TestCase):
    def test_only_what_is_between_the_markers_changes(self):
        entries = report.evaluate([row("x", True, 5)], samples([1], [7]))
        run = {"machine": report.machine(), "java_version": "1", "rounds": 3, "date": "2000-01-01"}
        with tempfile.TemporaryDirectory() as folder:
            docs = pathlib.Path(folder)
            page = docs / "performance.md"
            page.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
            report.write_docs(docs, entries, run)
            first = page.read_text()
            report.write_docs(docs, entries, run)
            self.assertEqual(first, page.read_text())
            self.assertTrue(first.startswith(f"before\n{report.BEGIN}\n|"))
            self.assertTrue(first.endswith(f"(bench.svg)\n{report.END}\nafter\n"))
            self.assertNotIn("old", first)
            xml.parse(docs / "bench.svg")

    def test_a_page_without_markers_is_refused(self):
        for page in "", report.BEGIN, report.END + report.BEGIN, (report.BEGIN + report.END) * 2:
            with self.assertRaises(ValueError):
                report.around_markers(page)


class Svg(unittest.TestCase):
    def draw(self, *ratios, target=5.0):
        return xml.fromstring(svg.draw([
            {"title": "a < b & c", "ratio": ratio, "target": target, "ok": ratio >= target} for ratio in ratios]))

    def test_bars_are_logarithmic_from_one(self):
        picture = self.draw(10, 100, 0.1)
        bars = picture.findall(f"{SVG}rect")
        x, width = ([float(bar.get(key)) for bar in bars] for key in ("x", "width"))
        self.assertAlmostEqual(width[0] * 2, width[1], delta=0.2)
        self.assertAlmostEqual(width[0], width[2], delta=0.2)
        self.assertEqual(x[0], x[1])
        self.assertAlmostEqual(x[0], x[2] + width[2], delta=0.2)
        self.assertEqual(["ok", "ok", "miss"], [bar.get("class") for bar in bars])

    def test_targets_are_marked_and_everything_is_inside(self):
        picture = self.draw(0.02, 7, 3000, target=10.0)
        marks = [line for line in picture.iter(f"{SVG}line") if line.get("class") == "target"]
        self.assertEqual(3, len(marks))
        width, height = float(picture.get("width")), float(picture.get("height"))
        for mark in marks:
            self.assertEqual(mark.get("x1"), mark.get("x2"))
        for bar in picture.findall(f"{SVG}rect"):
            self.assertLessEqual(svg.LEFT, float(bar.get("x")))
            self.assertLess(float(bar.get("x")) + float(bar.get("width")), width)
            self.assertLess(float(bar.get("y")) + float(bar.get("height")), height)

    def test_text_is_escaped(self):
        self.assertIn("a < b & c", [text.text for text in self.draw(2).iter(f"{SVG}text")])

    def test_no_rows(self):
        xml.fromstring(svg.draw([]))


class Rows(unittest.TestCase):
    def test_names(self):
        names = [r.name for r in rows.ROWS]
        self.assertEqual(len(names), len(set(names)))
        for r in rows.ROWS:
            for load in r.loads:
                self.assertIn(load, rows.LOADS)
        for load in rows.LOADS.values():
            self.assertIn(load.scenario, rows.SCENARIOS)
            self.assertNotEqual(bool(load.bench), bool(load.step))
            self.assertTrue(load.bench or hasattr(steps.Steps, load.step))

    def test_every_load_is_shown_and_every_row_has_one_scenario(self):
        self.assertEqual(set(rows.LOADS), {load for r in rows.ROWS for load in r.loads})
        for r in rows.ROWS:
            self.assertEqual(1, len({rows.LOADS[load].scenario for load in r.loads}))

    def test_list(self):
        listed = subprocess.run([HERE / "run", "--list"], text=True, capture_output=True, check=True).stdout
        self.assertEqual([r.name for r in rows.ROWS], [line.split()[0] for line in listed.splitlines()])

    def test_wrong_usage(self):
        for arguments in ["--rows", "nothing-like-this"], ["--write", "--quick"], ["--impl", "other"]:
            self.assertNotEqual(0, subprocess.run([HERE / "run", *arguments], capture_output=True).returncode)


class Processes(unittest.TestCase):
    def test_the_official_benchmarks_reports(self):
        line = "Current Time: 2026-11-30 02:55:00,001 | TPS: 4990 | Max RT(ms): 105 | Average RT(ms):  12.8 | Send Failed: 0"
        self.assertEqual(["4990"], steps.TPS.findall(line))

    def test_forgetting_pages_keeps_the_files(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "commitlog" / "0"
            file.parent.mkdir()
            file.write_bytes(b"x" * 10_000)
            steps.forget_pages(pathlib.Path(folder))
            self.assertEqual(b"x" * 10_000, file.read_bytes())
            self.assertEqual(10_000, steps.log_bytes(pathlib.Path(folder)))


class ProbeAgainstAFake(unittest.TestCase):
    """The probe talks to a server that refuses the first attempts."""

    def serve(self, listener, codes, seen):
        for answers in codes:
            connection, _ = listener.accept()
            with connection, connection.makefile("rb") as requests:
                for code in answers:
                    size, header_size = struct.unpack(">ii", requests.read(8))
                    header = json.loads(requests.read(header_size))
                    seen.append((header["code"], requests.read(size - 4 - header_size)))
                    reply = json.dumps({"code": code, "opaque": header["opaque"], "flag": 1}).encode()
                    connection.sendall(struct.pack(">ii", 4 + len(reply), len(reply)) + reply)

    def test_probe(self):
        seen = []
        with socket.create_server(("127.0.0.1", 0)) as listener:
            server = threading.Thread(target=self.serve, args=(listener, [[1], [0, 14], [], [0, 0]], seen))
            server.start()
            probe = broker.Probe(listener.getsockname()[1])
            self.assertGreater(probe.result(30), 0)
            probe.stop()
            server.join()
        self.assertEqual([17, 17, 310, 17, 310], [code for code, _ in seen])
        self.assertEqual(b"probe", seen[-1][1])

    def test_nothing_listens(self):
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            probe = broker.Probe(closed.getsockname()[1])
            with self.assertRaises(RuntimeError), contextlib.redirect_stderr(io.StringIO()):
                probe.result(0.1)
            probe.stop()


class Properties(unittest.TestCase):
    def test_both_sides_get_the_same(self):
        conf = {}
        for impl in rows.JAVA, rows.CASTOR:
            made = broker.Broker(impl, "/nowhere", {"flushDiskType": "SYNC_FLUSH"}, "4g").conf["broker"]
            conf[impl] = {key: re.sub(r":\d+", "", str(value)) for key, value in made.items() if not key.endswith("Port")}
        self.assertEqual(conf[rows.JAVA], conf[rows.CASTOR])
        self.assertEqual("SYNC_FLUSH", conf[rows.JAVA]["flushDiskType"])
        self.assertNotIn("mappedFileSizeCommitLog", conf[rows.JAVA])


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Breaks each rule of tools/tidy_promises.py once: pages that name tests, and decoders with fuzz targets."""

import unittest
from unittest import mock

import tidy
import tidy_promises
from tidy_tree import Tree

PAGE = "SECURITY.md"
ROW = "| a stranger knocks | it is turned away | {} |"
TABLE = "# Security\n## Ports\n| threat | answer | test |\n|---|---|---|\n"
FILES = {
    "src/fusewire/wire/hello.h": "Result<Hello> DecodeHello(ConstBytes body);\n",
    "src/fusewire/wire/hello.cc": "reader.Take(4);\n",
    "src/fusewire/wire/hello_test.cc": "TEST(Hello, ThatIsCutIsRefused) {}\nTEST_P(Hello, Travels) {}\n",
    "src/fusewire/pipe/pipe.cc": "",
    "tests/faults/stranger_test.cc": "TEST_F(Strangers, Knock) {}\n",
    "tests/python/test_doors.py": "def test_a_port_is_closed(run):\n    pass\n",
    "tests/soak/faults.py": 'FAULTS = {"kill-server": 1}\n',
    "tests/fuzz/CMakeLists.txt": "fusewire_fuzzer(hello SOURCES hello_fuzz.cc)\n",
    "tests/fuzz/hello_fuzz.cc": '#include "fusewire/wire/hello.h"\nvoid Try() { DecodeHello(in); }\n',
    "Makefile": "soak:\n\ttools/soak.sh\n",
}


class Broken(unittest.TestCase):
    def findings(self, check, changed, **tables):
        tree = Tree({path: text for path, text in (FILES | changed).items() if text is not None})
        found = tidy.Findings()
        usual = {"DECODERS": {}, "PAGES_WITH_TESTS": (PAGE,), "PROMISES": {PAGE: {"Ports": ("Keep",)}}}
        with mock.patch.multiple(tidy_promises, **usual | tables):
            check(tree, found)
        return found.lines

    def expect(self, message, check, changed, **tables):
        lines = self.findings(check, changed, **tables)
        self.assertEqual(len(lines), 1, lines)
        self.assertIn(message, lines[0])


class PromisesTest(Broken):
    def row(self, test):
        return self.findings(tidy.check_promises, {PAGE: TABLE + ROW.format(test) + "\n"})

    def paragraph(self, words, heading="Ports"):
        return self.findings(tidy.check_promises, {PAGE: f"# Security\n## {heading}\n{words}\n"})

    def test_each_form_of_a_name_is_found(self):
        for test in (
            "wire `Hello.ThatIsCutIsRefused`",
            "wire `Hello.Travels`, `...CutIsRefused`",
            "`Hello.*`; faults `Strangers.Knock`",
            "python `test_a_port_...` (20 times)",
            "python `test_*_is_closed`",
            "fuzz `hello`",
            "soak `kill-server`",
            "`make soak`",
            "python test_doors.py",
        ):
            with self.subTest(test):
                self.assertEqual(self.row(test), [])

    def test_an_unknown_test_is_named(self):
        for test in (
            "wire `Hello.IsGone`",
            "wire `Gone.*`",
            "python `test_gone`",
            "fuzz `gone`",
            "soak `gone`",
            "`make gone`",
            "python test_gone.py",
            "wire `Hello.Travels`; fuzz `gone`",
        ):
            with self.subTest(test):
                self.assertIn("no such", " ".join(self.row(test)))

    def test_a_test_of_another_place_is_said(self):
        self.assertIn("not a test of pipe", self.row("pipe `Hello.Travels`")[0])

    def test_a_promise_without_a_test_is_a_finding(self):
        for test in ("", "-", "the same", "reviewed", "`kBytesMax`"):
            with self.subTest(test):
                self.assertIn("this row names no test", self.row(test)[-1])
        self.assertIn("paragraph names no test", self.paragraph("It is closed.")[0])
        self.assertIn(
            'a column "test"', self.findings(tidy.check_promises, {PAGE: "## Ports\n| a | b |\n|---|---|\n"})[0]
        )

    def test_a_paragraph_names_its_tests_last(self):
        self.assertEqual(self.paragraph("It is\nclosed.\nTests: python\n`test_a_port_is_closed`."), [])
        self.assertIn("no such", self.paragraph("It is closed. Tests: python `test_gone`.")[0])

    def test_advice_and_other_parts_need_none(self):
        self.assertEqual(self.paragraph("Keep the secret."), [])
        self.assertEqual(self.paragraph("It is closed.", heading="History"), [])
        self.assertIn("excused", self.paragraph("Keep it. Tests: wire `Hello.Travels`.")[0])

    def test_elsewhere_a_row_may_say_that_there_is_none(self):
        elsewhere = {"docs/reliability.md": TABLE + ROW.format("not measured") + "\n"}
        pages = {"PAGES_WITH_TESTS": ("docs/reliability.md",)}
        self.assertEqual(self.findings(tidy.check_promises, elsewhere, **pages), [])


class DecodersTest(Broken):
    def test_a_decoder_has_a_fuzz_target(self):
        self.assertEqual(self.findings(tidy.check_decoders, {}), [])
        for name in ("DecodeProof", "ParsePorts"):
            header = {"src/fusewire/wire/proof.h": f"bool {name}(ConstBytes body);\n"}
            self.expect(f"no fuzz target calls {name}", tidy.check_decoders, header)

    def test_the_target_includes_its_header(self):
        other = {"src/fusewire/pipe/hello.h": "Result<Hello> DecodeHello(ConstBytes body);\n"}
        self.expect("src/fusewire/pipe/hello.h:1", tidy.check_decoders, other)

    def test_bytes_are_read_by_decoders_only(self):
        for read in ("reader.Varint()", "reader->Take(4)", "head_reader.Number<uint32_t>()"):
            with self.subTest(read):
                source = {"src/fusewire/pipe/pipe.cc": f"const uint64_t size = {read};\n"}
                self.expect("bytes are read in wire/", tidy.check_decoders, source)

    def test_an_exception_names_a_target(self):
        header = {"src/fusewire/wire/proof.h": "bool DecodeProof(ConstBytes body);\n"}
        place = "src/fusewire/wire/proof.h:DecodeProof"
        self.assertEqual(self.findings(tidy.check_decoders, header, DECODERS={place: ("hello", "")}), [])
        self.assertEqual(self.findings(tidy.check_decoders, header, DECODERS={place: (None, "why")}), [])
        self.expect("no fuzz target", tidy.check_decoders, header, DECODERS={place: ("gone", "")})


if __name__ == "__main__":
    unittest.main()

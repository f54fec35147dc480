// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "cost_table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <vector>

namespace fusewire::attack {
namespace {

constexpr char kPage[] = FUSEWIRE_SOURCE_FOLDER "/docs/reliability.md";
constexpr char kBegin[] = "| a hostile peer | over | for each | memory | processor time | descriptors | threads |";

constexpr double kNoiseBytes = 4096;

std::vector<std::string> ReadPage() {
  std::ifstream file(kPage);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> CellsOf(const std::string& row) {
  std::vector<std::string> cells;
  std::istringstream in(row);
  for (std::string cell; std::getline(in, cell, '|');) {
    const size_t begin = cell.find_first_not_of(' '), end = cell.find_last_not_of(' ');
    cells.push_back(begin == std::string::npos ? std::string() : cell.substr(begin, end - begin + 1));
  }
  return cells;
}

// To 1 or 2 digits, upwards.
std::string Rounded(double value) {
  if (value < 0.5) return "0";
  const double step = std::pow(10, std::floor(std::log10(value)) - (value >= 10 ? 1 : 0));
  return std::to_string(static_cast<int64_t>(std::ceil(std::ceil(value / step) * step)));
}

// With the largest unit that gives at least two.
std::string InBytes(double bytes) {
  if (bytes < 1024) return "below 1 KiB";
  return bytes < (2 << 20) ? Rounded(bytes / 1024) + " KiB" : Rounded(bytes / (1 << 20)) + " MiB";
}

std::string InTime(double ns) { return ns < 2e6 ? Rounded(ns / 1e3) + " us" : Rounded(ns / 1e6) + " ms"; }

double FromBytes(const std::string& cell) {
  if (cell.rfind("below", 0) == 0) return 1024;
  return std::atof(cell.c_str()) * (cell.find("MiB") == std::string::npos ? 1024 : 1 << 20);
}

double FromTime(const std::string& cell) {
  return std::atof(cell.c_str()) * (cell.find("ms") == std::string::npos ? 1e3 : 1e6);
}

// Into its place in the page: the row of the same name, or behind the last one.
void Write(const std::string& name, const std::string& row) {
  std::vector<std::string> lines = ReadPage();
  size_t at = 0;
  while (at < lines.size() && lines[at] != kBegin) ++at;
  ASSERT_LT(at, lines.size()) << kPage << " has no table that begins with " << kBegin;
  while (at < lines.size() && !lines[at].empty() && lines[at].rfind(name, 0) != 0) ++at;
  if (at < lines.size() && lines[at].rfind(name, 0) == 0) {
    lines[at] = row;
  } else {
    lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(at), row);
  }
  std::ofstream file(kPage, std::ios::trunc);
  for (const std::string& line : lines) file << line << '\n';
}

}  // namespace

void ExpectCost(const std::string& what, const std::string& way, const std::string& per, const Cost& measured) {
  const std::string name = "| " + what + " | " + way + " | " + per + " |";
  const std::string words = InBytes(measured.memory_bytes) + ", " + InTime(measured.cpu_ns) + ", descriptors " +
                            std::to_string(measured.descriptors) + ", threads " + std::to_string(measured.threads);
  if (std::getenv("TEST_TABLE") != nullptr) {
    Write(name, name + " " + InBytes(1.5 * measured.memory_bytes) + " | " + InTime(1.5 * measured.cpu_ns) + " | " +
                    Rounded(measured.descriptors) + " | " + Rounded(measured.threads) + " |");
    return;
  }
  for (const std::string& line : ReadPage()) {
    if (line.rfind(name, 0) != 0) continue;
    const std::vector<std::string> cells = CellsOf(line);
    ASSERT_EQ(cells.size(), 8u) << line;
    EXPECT_LE(measured.descriptors, std::atof(cells[6].c_str()) + 0.2) << line << "\nmeasured: " << words;
    EXPECT_LE(measured.threads, std::atof(cells[7].c_str())) << line << "\nmeasured: " << words;
    if (FUSEWIRE_TEST_SLOWDOWN != 1) return;
    EXPECT_LE(measured.memory_bytes, FromBytes(cells[4]) + kNoiseBytes) << line << "\nmeasured: " << words;
    // Other machines are slower, and this one may be busy.
    EXPECT_LE(measured.cpu_ns, 8 * FromTime(cells[5]) + 50e3) << line << "\nmeasured: " << words;
    return;
  }
  ADD_FAILURE() << "docs/reliability.md has no row that begins with " << name << "; TEST_TABLE=1 writes it: " << words;
}

}  // namespace fusewire::attack

// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/heads/snapshots.h"

#include <string>

#include <gtest/gtest.h>
#include "fusewire/wire/wire.h"

namespace fusewire::tf {
namespace {

Manifest SomeManifest() {
  Manifest manifest;
  manifest.task = "ps:3";
  manifest.cluster = "default";
  manifest.epoch = 300;
  manifest.holder = 0xfedcba9876543210;
  manifest.generation = 12;
  manifest.written_ms = 1234567;
  manifest.devices = {{"CPU:0", 77}, {"CPU:1", 78}};
  manifest.files = {{"000000000010.state", 10, 1 << 20, 0xfedcba98}, {"000000000012.state", 12, 77, 5}};
  manifest.clients = {{5, 3, {{3, true, "head", {"one", ""}}, {4, false, "", {}}}}, {6, 1, {}}};
  return manifest;
}

TEST(SnapshotHeads, AManifestIsReadAsItWasWritten) {
  const Manifest manifest = SomeManifest();
  Manifest read;
  ASSERT_TRUE(DecodeManifest(EncodeManifest(manifest), &read).ok());
  EXPECT_EQ(read.task, "ps:3");
  EXPECT_EQ(read.cluster, "default");
  EXPECT_EQ(read.epoch, 300u);
  EXPECT_EQ(read.holder, 0xfedcba9876543210u);
  EXPECT_EQ(read.generation, 12u);
  EXPECT_EQ(read.written_ms, 1234567u);
  EXPECT_EQ(read.devices, manifest.devices);
  ASSERT_EQ(read.files.size(), 2u);
  EXPECT_EQ(read.files[0].name, "000000000010.state");
  EXPECT_EQ(read.files[0].generation, 10u);
  EXPECT_EQ(read.files[0].bytes, 1u << 20);
  EXPECT_EQ(read.files[0].crc, 0xfedcba98u);
  EXPECT_EQ(read.files[1].name, "000000000012.state");
  ASSERT_EQ(read.clients.size(), 2u);
  EXPECT_EQ(read.clients[0].client, 5u);
  EXPECT_EQ(read.clients[0].open, 3u);
  ASSERT_EQ(read.clients[0].runs.size(), 2u);
  EXPECT_EQ(read.clients[0].runs[0].head, "head");
  EXPECT_EQ(read.clients[0].runs[0].body, manifest.clients[0].runs[0].body);
  EXPECT_TRUE(read.clients[0].runs[0].is_kept);
  EXPECT_FALSE(read.clients[0].runs[1].is_kept);
}

TEST(SnapshotHeads, AManifestThatWasCutOffOrChangedIsRefused) {
  const std::string whole = EncodeManifest(SomeManifest());
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    Manifest read;
    EXPECT_FALSE(DecodeManifest(ConstBytes(whole.data(), bytes), &read).ok()) << bytes;
  }
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string changed = whole;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << bit % 8));
    Manifest read;
    EXPECT_FALSE(DecodeManifest(changed, &read).ok()) << bit;
  }
}

TEST(SnapshotHeads, AManifestOfALaterVersionSaysSo) {
  std::string later = EncodeManifest(SomeManifest());
  later[std::string("fusewire manifest").size()] = 99;
  Manifest read;
  const Status status = DecodeManifest(later, &read);
  EXPECT_EQ(status.code(), Code::kInvalid);
  EXPECT_EQ(status.cause(), "it is a manifest of version 99, and 2 is known here");
}

TEST(SnapshotHeads, AManifestOfTheFirstVersionHasNoEpoch) {
  const Manifest manifest = SomeManifest();
  std::string first = EncodeManifest(manifest);
  const std::string before = "fusewire manifest" + std::string("\2\4ps:3\7default");
  ASSERT_EQ(first.substr(0, before.size()), before);
  first.erase(before.size(), 2 + 8);
  first[std::string("fusewire manifest").size()] = 1;
  first.resize(first.size() - 4);
  const uint32_t crc = wire::Crc32c(first);
  for (int shift = 0; shift < 32; shift += 8) first.push_back(static_cast<char>(crc >> shift));
  Manifest read;
  const Status status = DecodeManifest(first, &read);
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(read.cluster, "default");
  EXPECT_EQ(read.epoch, 0u);
  EXPECT_EQ(read.holder, 0u);
  EXPECT_EQ(read.generation, 12u);
  EXPECT_EQ(read.devices, manifest.devices);
  EXPECT_EQ(read.clients.size(), 2u);
}

TEST(SnapshotHeads, AnOwnerIsReadAsItWasWrittenOrRefused) {
  Owner owner;
  owner.task = "ps:3";
  owner.cluster = "default";
  owner.epoch = 300;
  owner.holder = 0xfedcba9876543210;
  owner.address = "10.0.0.5:4321";
  const std::string whole = EncodeOwner(owner);
  Owner read;
  ASSERT_TRUE(DecodeOwner(whole, &read).ok());
  EXPECT_EQ(read.task, owner.task);
  EXPECT_EQ(read.cluster, owner.cluster);
  EXPECT_EQ(read.epoch, owner.epoch);
  EXPECT_EQ(read.holder, owner.holder);
  EXPECT_EQ(read.address, owner.address);
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    Owner cut;
    EXPECT_FALSE(DecodeOwner(ConstBytes(whole.data(), bytes), &cut).ok()) << bytes;
  }
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string changed = whole;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << bit % 8));
    Owner damaged;
    EXPECT_FALSE(DecodeOwner(changed, &damaged).ok()) << bit;
  }
  std::string later = whole;
  later[std::string("fusewire owner").size()] = 99;
  EXPECT_EQ(DecodeOwner(later, &read).cause(), "it is an owner file of version 99, and 1 is known here");
}

TEST(SnapshotHeads, AHeadOfAVariableIsReadAsItWasWrittenOrRefused) {
  HoldingHead head;
  const std::string device = "CPU:0", name = "rows";
  head.kind = 1;
  head.device = device;
  head.name = name;
  head.tensors = {{1, {500, 8}, 16000}};
  std::string whole;
  AppendHoldingHead(head, &whole);
  HoldingHead read;
  ASSERT_TRUE(DecodeHoldingHead(whole, &read).ok());
  EXPECT_EQ(read.name.ToString(), "rows");
  EXPECT_EQ(read.tensors[0].shape, head.tensors[0].shape);
  EXPECT_EQ(read.tensors[0].bytes, 16000u);
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    HoldingHead cut;
    EXPECT_FALSE(DecodeHoldingHead(ConstBytes(whole.data(), bytes), &cut).ok()) << bytes;
  }
}

TEST(SnapshotHeads, RowsAreReadAsTheyWereWrittenOrRefused) {
  const std::vector<uint64_t> written = {0, 3, 4, 999};
  std::string whole;
  AppendRowNumbers(written.data(), written.size(), &whole);
  whole += "aabbccdd";
  std::vector<uint64_t> rows;
  ConstBytes content;
  ASSERT_TRUE(DecodeRows(whole, 1000, 2, &rows, &content).ok());
  EXPECT_EQ(rows, written);
  EXPECT_EQ(content.ToString(), "aabbccdd");
  EXPECT_FALSE(DecodeRows(whole, 999, 2, &rows, &content).ok());
  EXPECT_FALSE(DecodeRows(whole, 1000, 3, &rows, &content).ok());
  for (size_t bytes = 0; bytes < whole.size(); ++bytes)
    EXPECT_FALSE(DecodeRows(ConstBytes(whole.data(), bytes), 1000, 2, &rows, &content).ok()) << bytes;
}

TEST(SnapshotHeads, RowsOfATableAreReadAsTheyWereWrittenOrRefused) {
  const std::string keys(2 * kKeyBytes, 'k'), gone(kKeyBytes, 'g');
  std::string whole;
  AppendKeyedRows({ConstBytes(keys), ConstBytes(gone), ConstBytes(std::string("aabb"))}, &whole);
  KeyedRows read;
  ASSERT_TRUE(DecodeKeyedRows(whole, 2, &read).ok());
  EXPECT_EQ(read.keys.ToString(), keys);
  EXPECT_EQ(read.gone.ToString(), gone);
  EXPECT_EQ(read.content.ToString(), "aabb");
  EXPECT_FALSE(DecodeKeyedRows(whole, 3, &read).ok());
  EXPECT_FALSE(DecodeKeyedRows(whole + "c", 2, &read).ok());
  for (size_t bytes = 0; bytes < whole.size(); ++bytes)
    EXPECT_FALSE(DecodeKeyedRows(ConstBytes(whole.data(), bytes), 2, &read).ok()) << bytes;
}

TEST(SnapshotHeads, AFrameIsCheckedTogetherWithAllBefore) {
  const std::string content = "content";
  uint32_t written = 0;
  std::string first, second;
  AppendStateFrame(StateFrameKind::kHead, content, &written, &first);
  AppendStateFrame(StateFrameKind::kPiece, content, &written, &second);
  StateFrame frame;
  uint32_t crc = 0;
  ASSERT_TRUE(DecodeStateFrame(first, &frame).ok());
  EXPECT_EQ(frame.kind, StateFrameKind::kHead);
  EXPECT_EQ(frame.bytes, content.size());
  EXPECT_TRUE(CheckStateFrame(first, frame, content, &crc).ok());
  ASSERT_TRUE(DecodeStateFrame(second, &frame).ok());
  EXPECT_TRUE(CheckStateFrame(second, frame, content, &crc).ok());
  EXPECT_EQ(crc, written);

  uint32_t without_first = 0;
  EXPECT_FALSE(CheckStateFrame(second, frame, content, &without_first).ok());
  second[4] = 99;
  EXPECT_FALSE(DecodeStateFrame(second, &frame).ok());
}

}  // namespace
}  // namespace fusewire::tf

// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The files of snapshots, as plain values. A data file holds the values of a task's variables, a manifest says which
// data file is complete, and what belongs to it, an owner file which server has taken the task. All may have been cut
// off or changed on their way: what is read has checksums, and costs no more memory than its bytes justify.
// Home: none, pure functions. Owns: plain values. Fails: with what is wrong.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/base/bytes.h"
#include "fusewire/base/status.h"
#include "fusewire/tf/heads/varint.h"

namespace fusewire::tf {

// ---- a data file ----
//   file    := frame*
//   frame   := bytes:u32 kind:u8 crc:u32 u8[bytes]     crc: CRC-32C of bytes, kind and content, going on from the last
//                                                      frame's: that of the last frame is the file's
//   holding := kHead (kPiece)* | kHead (kPiece)* kDrop | kPatch (kRows)* | kPatch (kKeys)*
// The pieces are the contents of the head's tensors, one after the other. kDrop: the holding changed its shape while it
// was copied; it follows again, or is gone. kPatch: a head of what an earlier file has; only these rows are new. Those
// of a table are found by their keys, and its head has no row.
//   rows    := rows:varint number:varint* content     each number is said as its distance from the one before
//   keys    := rows:varint gone:varint key[rows]:i64 key[gone]:i64 content
enum class StateFrameKind : uint8_t { kTitle = 1, kHead = 2, kPiece = 3, kDrop = 4, kPatch = 5, kRows = 6, kKeys = 7 };
constexpr size_t kStateFrameBytes = 9;
constexpr uint64_t kStateContentBytesMax = 4 << 20;

struct StateFrame {
  StateFrameKind kind = StateFrameKind::kTitle;
  uint32_t bytes = 0;
  uint32_t crc = 0;
};
// The frame before `content`. *crc: of the file so far.
void AppendStateFrame(StateFrameKind kind, ConstBytes content, uint32_t* crc, std::string* out);
Status DecodeStateFrame(ConstBytes in, StateFrame* frame);
// `in` is what was decoded. Afterwards *crc includes the frame.
Status CheckStateFrame(ConstBytes in, const StateFrame& frame, ConstBytes content, uint32_t* crc);

// title := "fusewire snapshot" task:text generation:varint
std::string EncodeTitle(const std::string& task, uint64_t generation);

// head := kind:u8 device:text container:text name:text node:text tensors:varint tensor*
// tensor := type:varint dims:varint dim:varint* bytes:varint
constexpr uint64_t kHoldingTensorsMax = 2;  // a table has keys and values
constexpr uint64_t kHoldingDimsMax = 254;
struct HeldTensor {
  uint32_t type = 0;
  std::vector<uint64_t> shape;
  uint64_t bytes = 0;
};
struct HoldingHead {
  uint8_t kind = 0;
  ConstBytes device, container, name, node;
  std::vector<HeldTensor> tensors;
};
void AppendHoldingHead(const HoldingHead& head, std::string* out);
Status DecodeHoldingHead(ConstBytes in, HoldingHead* head);

void AppendRowNumbers(const uint64_t* rows, size_t count, std::string* out);
// Of a tensor with so many rows, of so many bytes each. *content: one row after the other.
Status DecodeRows(ConstBytes in, uint64_t rows_max, uint64_t row_bytes, std::vector<uint64_t>* rows,
                  ConstBytes* content);

// Changes of a table: keys with their rows, and keys that it no longer has; each as they lie in a frame.
constexpr size_t kKeyBytes = sizeof(int64_t);
struct KeyedRows {
  ConstBytes keys, gone, content;
};
void AppendKeyedRows(const KeyedRows& rows, std::string* out);
// Of a table with rows of so many bytes.
Status DecodeKeyedRows(ConstBytes in, uint64_t row_bytes, KeyedRows* rows);

// ---- a manifest ----
//   manifest := "fusewire manifest" version:u8 task:text cluster:text [epoch:varint holder:u64]
//               generation:varint written_ms:varint
//               devices:varint (name:text incarnation:u64)*
//               files:varint (name:text generation:varint bytes:varint crc:u64)*
//               clients:varint (client:u64 open:varint runs:varint run*)*
//               crc:u32 of all before
//   run      := number:varint is_kept:u8 head:text segments:varint text*
// Version 1 has neither epoch nor holder.
constexpr uint8_t kManifestVersion = 2;
constexpr size_t kManifestBytesMax = size_t{1} << 30;

// A run with a ticket that has ended, and whose client may not have the answer.
struct KeptRun {
  uint64_t number = 0;
  bool is_kept = false;  // otherwise it had a large answer
  std::string head;
  std::vector<std::string> body;
};
struct KeptClient {
  uint64_t client = 0;
  uint64_t open = 0;  // it has the answers of all runs before
  std::vector<KeptRun> runs;
};

// A data file. The first of a manifest has all that the task held, each later one what was written since.
struct StateFile {
  std::string name;  // in the folder
  uint64_t generation = 0;
  uint64_t bytes = 0;
  uint32_t crc = 0;
};

struct Manifest {
  std::string task, cluster;
  uint64_t epoch = 0, holder = 0;  // of the owner that has written it
  uint64_t generation = 0;
  uint64_t written_ms = 0;                                // since 1970
  std::vector<std::pair<std::string, uint64_t>> devices;  // "CPU:0" and its incarnation
  std::vector<StateFile> files;
  std::vector<KeptClient> clients;
};
std::string EncodeManifest(const Manifest& manifest);
Status DecodeManifest(ConstBytes in, Manifest* manifest);

// ---- an owner file ----
//   owner := "fusewire owner" version:u8 task:text cluster:text epoch:varint holder:u64 address:text
//            crc:u32 of all before
constexpr uint8_t kOwnerVersion = 1;
constexpr size_t kOwnerBytesMax = 64 << 10;

// Who has taken a task. Each taking has a higher epoch than all before.
struct Owner {
  std::string task, cluster;
  uint64_t epoch = 0;
  uint64_t holder = 0;  // the incarnation of its data port, which no other server has
  std::string address;  // of its data port; empty until that is open
};
std::string EncodeOwner(const Owner& owner);
Status DecodeOwner(ConstBytes in, Owner* owner);

}  // namespace fusewire::tf

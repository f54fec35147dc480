// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/heads/snapshots.h"

#include "fusewire/wire/coder.h"
#include "fusewire/wire/wire.h"

namespace fusewire::tf {
namespace {

constexpr char kTitleWord[] = "fusewire snapshot";
constexpr char kManifestWord[] = "fusewire manifest";
constexpr char kOwnerWord[] = "fusewire owner";
constexpr size_t kCrcBytes = 4;
// What each takes at least.
constexpr size_t kRunBytesMin = 4, kClientBytesMin = 10, kDeviceBytesMin = 9, kFileBytesMin = 11;

// What is between the version and the checksum of a file that begins with this word. *version: at least 1.
template <size_t N>
Status Unwrap(ConstBytes in, const char (&word)[N], const char* what, uint8_t version_max, uint8_t* version,
              ConstBytes* content) {
  const size_t bytes = N - 1;
  if (in.size < bytes + 1 + kCrcBytes || in.Sub(0, bytes).ToString() != word)
    return Status::Corrupt(std::string("it is not ") + what);
  *version = in.data[bytes];
  if (*version == 0 || *version > version_max) {
    return Status::Invalid(std::string("it is ") + what + " of version " + std::to_string(*version) + ", and " +
                           std::to_string(version_max) + " is known here")
        .Next("restart the task with the Fusewire that has written it");
  }
  const ConstBytes checked = in.Sub(0, in.size - kCrcBytes);
  if (wire::Crc32c(checked) != wire::Load<uint32_t>(in.From(checked.size).data))
    return Status::Corrupt(std::string(what) + " whose checksum does not match its content");
  *content = checked.From(bytes + 1);
  return Status::Ok();
}

// Of its first five bytes, which say kind and size, and its content.
uint32_t CrcOf(ConstBytes frame, ConstBytes content, uint32_t before) {
  return wire::Crc32c(content, wire::Crc32c(frame.Sub(0, kStateFrameBytes - kCrcBytes), before));
}

// Whether that many can follow, as each takes some bytes: only then is memory reserved for them.
bool IsCount(const VarReader& reader, uint64_t count, size_t bytes_each) {
  return reader.ok() && count <= reader.left().size / bytes_each;
}

void AppendClient(const KeptClient& client, std::string* out) {
  AppendFixed64(out, client.client);
  AppendVarint(out, client.open);
  AppendVarint(out, client.runs.size());
  for (const KeptRun& run : client.runs) {
    AppendVarint(out, run.number);
    out->push_back(run.is_kept ? 1 : 0);
    AppendText(out, run.head);
    AppendVarint(out, run.body.size());
    for (const std::string& segment : run.body) AppendText(out, segment);
  }
}

bool ReadClient(VarReader* reader, KeptClient* client) {
  client->client = reader->Fixed64();
  client->open = reader->Varint();
  const uint64_t runs = reader->Varint();
  if (!IsCount(*reader, runs, kRunBytesMin)) return false;
  client->runs.reserve(static_cast<size_t>(runs));
  for (uint64_t i = 0; i < runs; ++i) {
    KeptRun run;
    run.number = reader->Varint();
    run.is_kept = reader->Byte() == 1;
    run.head = reader->Text().ToString();
    const uint64_t segments = reader->Varint();
    if (!IsCount(*reader, segments, 1)) return false;
    run.body.reserve(static_cast<size_t>(segments));
    for (uint64_t segment = 0; segment < segments; ++segment) run.body.push_back(reader->Text().ToString());
    if (!reader->ok()) return false;
    client->runs.push_back(std::move(run));
  }
  return true;
}

}  // namespace

void AppendStateFrame(StateFrameKind kind, ConstBytes content, uint32_t* crc, std::string* out) {
  std::string frame;
  wire::Append(&frame, static_cast<uint32_t>(content.size));
  frame.push_back(static_cast<char>(kind));
  frame.resize(kStateFrameBytes);
  *crc = CrcOf(frame, content, *crc);
  frame.resize(kStateFrameBytes - kCrcBytes);
  wire::Append(&frame, *crc);
  *out += frame;
}

Status DecodeStateFrame(ConstBytes in, StateFrame* frame) {
  if (in.size < kStateFrameBytes) return Status::Corrupt("a data file ends within a frame");
  frame->bytes = wire::Load<uint32_t>(in.data);
  const uint8_t kind = in.data[4];
  frame->crc = wire::Load<uint32_t>(in.data + 5);
  if (kind < static_cast<uint8_t>(StateFrameKind::kTitle) || kind > static_cast<uint8_t>(StateFrameKind::kKeys))
    return Status::Corrupt("a data file has a frame of no known kind");
  if (frame->bytes > kStateContentBytesMax) return Status::Corrupt("a data file has a frame that is too large");
  frame->kind = static_cast<StateFrameKind>(kind);
  return Status::Ok();
}

Status CheckStateFrame(ConstBytes in, const StateFrame& frame, ConstBytes content, uint32_t* crc) {
  *crc = CrcOf(in, content, *crc);
  return *crc == frame.crc ? Status::Ok()
                           : Status::Corrupt("the checksum of a frame of a data file does not match its content");
}

std::string EncodeTitle(const std::string& task, uint64_t generation) {
  std::string title = kTitleWord;
  AppendText(&title, task);
  AppendVarint(&title, generation);
  return title;
}

void AppendHoldingHead(const HoldingHead& head, std::string* out) {
  out->push_back(static_cast<char>(head.kind));
  for (ConstBytes text : {head.device, head.container, head.name, head.node}) AppendText(out, text.ToString());
  AppendVarint(out, head.tensors.size());
  for (const HeldTensor& tensor : head.tensors) {
    AppendVarint(out, tensor.type);
    AppendVarint(out, tensor.shape.size());
    for (uint64_t dim : tensor.shape) AppendVarint(out, dim);
    AppendVarint(out, tensor.bytes);
  }
}

Status DecodeHoldingHead(ConstBytes in, HoldingHead* head) {
  VarReader reader(in);
  head->kind = reader.Byte();
  for (ConstBytes* text : {&head->device, &head->container, &head->name, &head->node}) *text = reader.Text();
  const uint64_t tensors = reader.Varint();
  if (!reader.ok() || tensors == 0 || tensors > kHoldingTensorsMax)
    return Status::Corrupt("a variable of a data file has an invalid head");
  for (uint64_t i = 0; i < tensors; ++i) {
    HeldTensor tensor;
    const uint64_t type = reader.Varint(), dims = reader.Varint();
    if (!reader.ok() || type > UINT32_MAX || dims > kHoldingDimsMax)
      return Status::Corrupt("a variable of a data file has a tensor of an invalid shape");
    tensor.type = static_cast<uint32_t>(type);
    for (uint64_t dim = 0; dim < dims; ++dim) tensor.shape.push_back(reader.Varint());
    tensor.bytes = reader.Varint();
    head->tensors.push_back(std::move(tensor));
  }
  return reader.ok() && reader.done() ? Status::Ok() : Status::Corrupt("the head of a variable is cut off");
}

void AppendRowNumbers(const uint64_t* rows, size_t count, std::string* out) {
  AppendVarint(out, count);
  uint64_t last = 0;
  for (size_t i = 0; i < count; ++i) AppendVarint(out, rows[i] - std::exchange(last, rows[i]));
}

Status DecodeRows(ConstBytes in, uint64_t rows_max, uint64_t row_bytes, std::vector<uint64_t>* rows,
                  ConstBytes* content) {
  VarReader reader(in);
  const uint64_t count = reader.Varint();
  bool is_sane = IsCount(reader, count, 1);
  rows->clear();
  if (is_sane) rows->reserve(static_cast<size_t>(count));
  uint64_t row = 0;
  for (uint64_t i = 0; is_sane && i < count; ++i) {
    const uint64_t distance = reader.Varint();
    is_sane = reader.ok() && distance < rows_max && row + distance < rows_max;
    row += distance;
    rows->push_back(row);
  }
  *content = reader.left();
  // Written so that nothing is multiplied: a row may be of any size.
  is_sane =
      is_sane && (count == 0 ? content->empty() : content->size % count == 0 && content->size / count == row_bytes);
  return is_sane ? Status::Ok() : Status::Corrupt("rows of a data file that don't match their variable");
}

void AppendKeyedRows(const KeyedRows& rows, std::string* out) {
  AppendVarint(out, rows.keys.size / kKeyBytes);
  AppendVarint(out, rows.gone.size / kKeyBytes);
  for (ConstBytes bytes : {rows.keys, rows.gone, rows.content})
    out->append(reinterpret_cast<const char*>(bytes.data), bytes.size);
}

Status DecodeKeyedRows(ConstBytes in, uint64_t row_bytes, KeyedRows* rows) {
  VarReader reader(in);
  const uint64_t count = reader.Varint(), gone = reader.Varint();
  bool is_sane = IsCount(reader, count, kKeyBytes) && IsCount(reader, gone, kKeyBytes);
  if (is_sane) {
    rows->keys = reader.Take(kKeyBytes * count);
    rows->gone = reader.Take(kKeyBytes * gone);
  }
  const ConstBytes content = rows->content = reader.left();
  // Written so that nothing is multiplied: a row may be of any size.
  is_sane = is_sane && reader.ok() &&
            (count == 0 ? content.empty() : content.size % count == 0 && content.size / count == row_bytes);
  return is_sane ? Status::Ok() : Status::Corrupt("rows of a data file that don't match their table");
}

std::string EncodeManifest(const Manifest& manifest) {
  std::string out = kManifestWord;
  out.push_back(static_cast<char>(kManifestVersion));
  AppendText(&out, manifest.task);
  AppendText(&out, manifest.cluster);
  AppendVarint(&out, manifest.epoch);
  AppendFixed64(&out, manifest.holder);
  AppendVarint(&out, manifest.generation);
  AppendVarint(&out, manifest.written_ms);
  AppendVarint(&out, manifest.devices.size());
  for (const auto& [device, incarnation] : manifest.devices) {
    AppendText(&out, device);
    AppendFixed64(&out, incarnation);
  }
  AppendVarint(&out, manifest.files.size());
  for (const StateFile& file : manifest.files) {
    AppendText(&out, file.name);
    AppendVarint(&out, file.generation);
    AppendVarint(&out, file.bytes);
    AppendFixed64(&out, file.crc);
  }
  AppendVarint(&out, manifest.clients.size());
  for (const KeptClient& client : manifest.clients) AppendClient(client, &out);
  wire::Append(&out, wire::Crc32c(out));
  return out;
}

Status DecodeManifest(ConstBytes in, Manifest* manifest) {
  uint8_t version = 0;
  ConstBytes content;
  FUSEWIRE_TRY(Unwrap(in, kManifestWord, "a manifest", kManifestVersion, &version, &content));
  VarReader reader(content);
  manifest->task = reader.Text().ToString();
  manifest->cluster = reader.Text().ToString();
  if (version > 1) {
    manifest->epoch = reader.Varint();
    manifest->holder = reader.Fixed64();
  }
  manifest->generation = reader.Varint();
  manifest->written_ms = reader.Varint();
  const uint64_t devices = reader.Varint();
  bool is_sane = IsCount(reader, devices, kDeviceBytesMin);
  for (uint64_t i = 0; is_sane && i < devices; ++i) {
    std::string device = reader.Text().ToString();
    manifest->devices.emplace_back(std::move(device), reader.Fixed64());
    is_sane = reader.ok();
  }
  const uint64_t files = reader.Varint();
  is_sane = is_sane && IsCount(reader, files, kFileBytesMin);
  for (uint64_t i = 0; is_sane && i < files; ++i) {
    StateFile file;
    file.name = reader.Text().ToString();
    file.generation = reader.Varint();
    file.bytes = reader.Varint();
    file.crc = static_cast<uint32_t>(reader.Fixed64());
    is_sane = reader.ok();
    manifest->files.push_back(std::move(file));
  }
  const uint64_t clients = reader.Varint();
  is_sane = is_sane && IsCount(reader, clients, kClientBytesMin);
  for (uint64_t i = 0; is_sane && i < clients; ++i) {
    manifest->clients.emplace_back();
    is_sane = ReadClient(&reader, &manifest->clients.back());
  }
  return is_sane && reader.ok() && reader.done() ? Status::Ok() : Status::Corrupt("the manifest is cut off");
}

std::string EncodeOwner(const Owner& owner) {
  std::string out = kOwnerWord;
  out.push_back(static_cast<char>(kOwnerVersion));
  AppendText(&out, owner.task);
  AppendText(&out, owner.cluster);
  AppendVarint(&out, owner.epoch);
  AppendFixed64(&out, owner.holder);
  AppendText(&out, owner.address);
  wire::Append(&out, wire::Crc32c(out));
  return out;
}

Status DecodeOwner(ConstBytes in, Owner* owner) {
  uint8_t version = 0;
  ConstBytes content;
  FUSEWIRE_TRY(Unwrap(in, kOwnerWord, "an owner file", kOwnerVersion, &version, &content));
  VarReader reader(content);
  owner->task = reader.Text().ToString();
  owner->cluster = reader.Text().ToString();
  owner->epoch = reader.Varint();
  owner->holder = reader.Fixed64();
  owner->address = reader.Text().ToString();
  return reader.ok() && reader.done() ? Status::Ok() : Status::Corrupt("the owner file is cut off");
}

}  // namespace fusewire::tf

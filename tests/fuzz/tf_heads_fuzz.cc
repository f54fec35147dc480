// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// input := which:u8 message
// The heads of the plug-in's messages, as a peer may send them. What is read lies within the message, costs no more
// memory than its bytes justify, and keeps the bounds that the header says; what is refused has a reason.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "allocations.h"
#include "fusewire/base/check.h"
#include "fusewire/tf/heads/calls.h"
#include "fusewire/tf/heads/moves.h"
#include "fusewire/tf/heads/receives.h"
#include "fusewire/tf/heads/snapshots.h"
#include "fusewire/wire/wire.h"

namespace fusewire::tf {
namespace {

constexpr size_t kWordsBytesMax = 2000;
constexpr size_t kPayloadsBytesMax = 4 * kStatusPayloadsMax * sizeof(std::pair<ConstBytes, ConstBytes>);

void CheckWithin(ConstBytes part, ConstBytes whole) {
  if (part.empty()) return;
  FUSEWIRE_CHECK(part.data >= whole.data);
  FUSEWIRE_CHECK(part.data + part.size <= whole.data + whole.size);
}

bool Taken(const Status& read) {
  FUSEWIRE_CHECK(read.ok() == read.cause().empty());
  return read.ok();
}

// As many tensors as there are.
void TryTensors(ConstBytes in) {
  VarReader reader(in);
  while (!reader.done()) {
    TensorHead head;
    if (!Taken(DecodeTensorHead(&reader, &head))) return;
    if (head.form == TensorForm::kControl) continue;
    FUSEWIRE_CHECK(head.rank <= kTensorRankMax);
    CheckWithin(head.content, in);
    FUSEWIRE_CHECK(head.is_raw() || !head.is_inline() || head.content.size == head.bytes);
  }
}

// input := count:u8 content
void TryTexts(ConstBytes in) {
  if (in.empty()) return;
  PackedTexts texts(in.From(1));
  if (!texts.Open(in.data[0])) return;
  size_t sum = 0;
  for (int left = in.data[0]; left > 0; --left) {
    ConstBytes text;
    if (!texts.Next(&text)) return;
    CheckWithin(text, in);
    sum += text.size;
  }
  FUSEWIRE_CHECK(sum + in.data[0] + 1 <= in.size);
}

void TryList(ConstBytes in) {
  ListHead list;
  if (Taken(DecodeListHead(in, &list))) CheckWithin(list.shape, in);
}

void TryStatus(ConstBytes in) {
  VarReader reader(in);
  StatusHead head;
  if (!Taken(DecodeStatusHead(&reader, &head))) return;
  FUSEWIRE_CHECK(head.code <= kStatusCodeMax);
  FUSEWIRE_CHECK(head.payloads.size() <= kStatusPayloadsMax);
  CheckWithin(head.message, in);
  for (const auto& [url, value] : head.payloads) {
    CheckWithin(url, in);
    CheckWithin(value, in);
  }
}

void TryWants(ConstBytes in) {
  VarReader reader(in);
  uint64_t book = 0, count = 0;
  if (!Taken(DecodeBook(&reader, &book)) || !Taken(DecodeWantCount(&reader, &count))) return;
  FUSEWIRE_CHECK(count <= in.size);
  for (uint64_t i = 0; i < count; ++i) {
    const WantHead want = DecodeWant(&reader);
    if (!reader.ok()) return;
    FUSEWIRE_CHECK(want.number <= UINT64_MAX >> kFlagBits);
    CheckWithin(want.key, in);
    CheckWithin(want.frame, in);
  }
}

// input := wants:u8 answer*
void TryAnswers(ConstBytes in) {
  if (in.empty()) return;
  VarReader reader(in.From(1));
  while (!reader.done()) {
    AnswerHead head;
    if (!Taken(DecodeAnswerHead(&reader, in.data[0], &head))) return;
    FUSEWIRE_CHECK(head.index < in.data[0]);
    FUSEWIRE_CHECK(head.kind <= kError);
    StatusHead error;
    TensorHead tensor;
    if (head.kind == kError && !Taken(DecodeStatusHead(&reader, &error))) return;
    if (head.kind == kValue && !Taken(DecodeTensorHead(&reader, &tensor))) return;
  }
}

void TryFusedQuestion(ConstBytes in) {
  VarReader reader(in);
  uint64_t count = 0;
  if (!Taken(DecodeFusedCount(&reader, &count))) return;
  FUSEWIRE_CHECK(count > 0);
  FUSEWIRE_CHECK(count <= in.size);
}

// input := items:u8 answer
void TryFusedAnswer(ConstBytes in) {
  if (in.empty()) return;
  const ConstBytes answer = in.From(1);
  (void)IsFusedAnswer(answer);
  VarReader head{ConstBytes()}, segments{ConstBytes()};
  if (!Taken(DecodeFusedAnswer(answer, &head, &segments))) return;
  for (size_t i = 0; i < in.data[0]; ++i) {
    FusedKind kind = FusedKind::kValue;
    ConstBytes segment;
    TensorHead tensor;
    if (!Taken(DecodeFusedItem(&head, i, in.data[0], &kind))) return;
    if (kind != FusedKind::kValue) continue;
    if (!Taken(DecodeFusedSegment(&head, &segments, &segment))) return;
    CheckWithin(segment, in);
    if (!Taken(DecodeTensorHead(&head, &tensor))) return;
  }
}

void TrySteps(ConstBytes in) {
  VarReader reader(in);
  uint64_t steps = 0;
  (void)DecodeCleanups(&reader, [&steps](int64_t) { ++steps; });
  FUSEWIRE_CHECK(steps * 8 <= in.size);
  int64_t step = 0;
  (void)Taken(DecodeAbort(in, &step));
  uint64_t bytes = 0;
  (void)Taken(DecodeEcho(in, in.size % 2 == 0, &bytes));
}

void TryParts(ConstBytes in) {
  PlaceHead place;
  if (Taken(DecodePlaceHead(in, &place))) {
    CheckWithin(place.session, in);
    CheckWithin(place.fingerprint, in);
  }
  VarReader placed(in), reader(in);
  uint64_t part = 0;
  Again again = Again::kNever;
  (void)Taken(DecodePlaced(&placed, &part, &again));
  FUSEWIRE_CHECK(again <= Again::kLeaves);
  RunHead run;
  if (!Taken(DecodeRunHead(&reader, &run))) return;
  FUSEWIRE_CHECK(run.ticket.open <= run.ticket.number);
  TryTensors(reader.left());
}

void TryKept(ConstBytes in) {
  VarReader reader(in);
  CheckWithin(DecodeKeepHead(&reader).session, in);
  while (reader.ok() && !reader.done()) {
    KeptHead kept;
    TensorHead tensor;
    if (!Taken(DecodeKeptHead(&reader, &kept))) return;
    FUSEWIRE_CHECK(kept.number < kKeptNumbersMax);
    if (!Taken(DecodeTensorHead(&reader, &tensor))) return;
  }
}

void TryWhereabouts(ConstBytes in) {
  std::vector<Whereabout> known, again;
  if (!Taken(DecodeWhereabouts(in, &known))) return;
  FUSEWIRE_CHECK(known.size() <= kWhereaboutsMax);
  FUSEWIRE_CHECK(DecodeWhereabouts(ConstBytes(EncodeWhereabouts(known)), &again).ok());
  FUSEWIRE_CHECK(again.size() == known.size());
}

// A frame of a data file, and the head of a variable.
void TryState(ConstBytes in) {
  StateFrame frame;
  uint32_t crc = 0;
  if (Taken(DecodeStateFrame(in, &frame))) {
    FUSEWIRE_CHECK(frame.bytes <= kStateContentBytesMax);
    (void)Taken(CheckStateFrame(in, frame, in.From(kStateFrameBytes), &crc));
  }
  std::vector<uint64_t> rows;
  ConstBytes content;
  if (Taken(DecodeRows(in, 1000, 4, &rows, &content))) {
    FUSEWIRE_CHECK(content.size == 4 * rows.size());
    CheckWithin(content, in);
    for (uint64_t row : rows) FUSEWIRE_CHECK(row < 1000);
  }
  KeyedRows keyed;
  if (Taken(DecodeKeyedRows(in, 4, &keyed))) {
    FUSEWIRE_CHECK(keyed.content.size / 4 == keyed.keys.size / kKeyBytes);
    for (ConstBytes part : {keyed.keys, keyed.gone, keyed.content}) CheckWithin(part, in);
  }
  HoldingHead head;
  if (!Taken(DecodeHoldingHead(in, &head))) return;
  FUSEWIRE_CHECK(!head.tensors.empty());
  FUSEWIRE_CHECK(head.tensors.size() <= kHoldingTensorsMax);
  for (ConstBytes text : {head.device, head.container, head.name, head.node}) CheckWithin(text, in);
}

std::string WithCrc(ConstBytes in) {
  std::string whole = in.ToString();
  const uint32_t crc = wire::Crc32c(in);
  for (int shift = 0; shift < 32; shift += 8) whole.push_back(static_cast<char>(crc >> shift));
  return whole;
}

// As it is, and with the checksum that it should have. One of the first version gets an epoch and a holder.
void TryManifest(ConstBytes in) {
  Manifest manifest;
  (void)Taken(DecodeManifest(in, &manifest));
  const std::string whole = WithCrc(in);
  Manifest checked;
  if (Taken(DecodeManifest(whole, &checked))) FUSEWIRE_CHECK(EncodeManifest(checked).size() <= whole.size() + 9);
}

void TryOwner(ConstBytes in) {
  Owner owner, checked;
  (void)Taken(DecodeOwner(in, &owner));
  const std::string whole = WithCrc(in);
  if (Taken(DecodeOwner(whole, &checked))) FUSEWIRE_CHECK(EncodeOwner(checked).size() <= whole.size());
}

void TryMoves(ConstBytes in) {
  HandOver asked;
  if (Taken(DecodeHandOver(in, &asked))) FUSEWIRE_CHECK(EncodeHandOver(asked) == in.ToString());
  VarReader handed(in), taken(in);
  HandedOver answer;
  (void)Taken(DecodeHandedOver(&handed, &answer));
  TakeTask task;
  (void)Taken(DecodeTakeTask(in, &task));
  TakenTask said;
  (void)Taken(DecodeTakenTask(&taken, &said));
  ConstBytes fingerprint, request;
  if (Taken(DecodePart(in, &fingerprint, &request))) CheckWithin(fingerprint, in);
  std::vector<KeptTensor> values, again;
  if (!Taken(DecodeKeptTensors(in, &values))) return;
  for (const KeptTensor& value : values) {
    CheckWithin(value.session, in);
    CheckWithin(value.tensor, in);
  }
  FUSEWIRE_CHECK(DecodeKeptTensors(ConstBytes(EncodeKeptTensors(values)), &again).ok());
  FUSEWIRE_CHECK(again.size() == values.size());
}

void Try(uint8_t which, ConstBytes in) {
  const AllocatedBytes allocated;
  switch (which % 16) {
    case 0: TryTensors(in); break;
    case 1: TryTexts(in); break;
    case 2: TryList(in); break;
    case 3: TryStatus(in); break;
    case 4: TryWants(in); break;
    case 5: TryAnswers(in); break;
    case 6: TryFusedQuestion(in); break;
    case 7: TryFusedAnswer(in); break;
    case 8: TrySteps(in); break;
    case 9: TryParts(in); break;
    case 10: TryKept(in); break;
    case 11: TryState(in); break;
    case 12: TryManifest(in); break;
    case 13: TryOwner(in); break;
    case 14: TryMoves(in); break;
    default: TryWhereabouts(in);
  }
  // Payloads of statuses are listed, and each has taken two bytes at least; nothing else is kept.
  FUSEWIRE_CHECK(allocated.sum() <= kWordsBytesMax + kPayloadsBytesMax + 64 * in.size);
}

}  // namespace
}  // namespace fusewire::tf

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  fusewire::tf::Try(data[0], fusewire::ConstBytes(data + 1, size - 1));
  return 0;
}

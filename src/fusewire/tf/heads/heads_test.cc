// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Tests: heads/calls.cc, heads/moves.cc, heads/receives.cc. What honest peers say, cut off at each byte; the fuzz
// target tf_heads has the rest.
#include <functional>
#include <string>
#include <vector>

#include "fusewire/tf/heads/calls.h"
#include "fusewire/tf/heads/moves.h"
#include "fusewire/tf/heads/receives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fusewire::tf {
namespace {

std::string Fixed(std::vector<uint64_t> numbers) {
  std::string text;
  for (uint64_t number : numbers) AppendFixed64(&text, number);
  return text;
}

// Whole, it is taken; without its last bytes, never.
void ExpectWhole(const std::string& whole, const std::function<bool(ConstBytes)>& decode) {
  EXPECT_TRUE(decode(ConstBytes(whole)));
  for (size_t bytes = 0; bytes < whole.size(); ++bytes)
    EXPECT_FALSE(decode(ConstBytes(whole.data(), bytes))) << bytes << " bytes";
}

TEST(Heads, ThatAreCutOffAreRefused) {
  ExpectWhole(Fixed({7}), [](ConstBytes head) {
    int64_t step = 0;
    return DecodeAbort(head, &step).ok() && step == 7;
  });
  ExpectWhole(Fixed({9}), [](ConstBytes head) {
    uint64_t bytes = 0;
    return DecodeEcho(head, false, &bytes).ok() && bytes == 9;
  });
  ExpectWhole(Fixed({9}), [](ConstBytes head) {
    VarReader reader(head);
    uint64_t part = 0;
    Again again = Again::kTicket;
    return DecodePlaced(&reader, &part, &again).ok() && part == 9 && again == Again::kNever;
  });
  ExpectWhole('\2' + Fixed({3, 4}), [](ConstBytes head) {
    VarReader reader(head);
    int64_t sum = 0;
    return DecodeCleanups(&reader, [&sum](int64_t step) { sum += step; }) && sum == 7;
  });
  ExpectWhole(Fixed({17, 5}) + '\1', [](ConstBytes head) {
    VarReader reader(head);
    RunHead run;
    return DecodeRunHead(&reader, &run).ok() && run.part == 17 && run.step == 5 && run.is_traced &&
           run.ticket.number == 0;
  });
  ExpectWhole(Fixed({17, 5}) + '\2' + Fixed({23}) + "\x85\1\7", [](ConstBytes head) {
    VarReader reader(head);
    RunHead run;
    return DecodeRunHead(&reader, &run).ok() && !run.is_traced && run.ticket.client == 23 && run.ticket.number == 133 &&
           run.ticket.open == 7 && reader.done();
  });
  ExpectWhole("\3abc\2de", [](ConstBytes head) {
    PlaceHead place;
    return DecodePlaceHead(head, &place).ok() && place.fingerprint.ToString() == "de";
  });
  ExpectWhole("\3abc" + Fixed({6}), [](ConstBytes head) {
    VarReader reader(head);
    return DecodeKeepHead(&reader).step == 6 && reader.ok();
  });
  ExpectWhole(std::string("\1\1", 2), [](ConstBytes head) {
    VarReader reader(head);
    AnswerHead answer;
    return DecodeAnswerHead(&reader, 2, &answer).ok() && answer.kind == kDead;
  });
  ExpectWhole(std::string("\5\3why\1\1u\1v", 10), [](ConstBytes head) {
    VarReader reader(head);
    StatusHead status;
    return DecodeStatusHead(&reader, &status).ok() && status.payloads.size() == 1;
  });
  ExpectWhole(std::string("\3\7\2\1\1\2ab", 8), [](ConstBytes head) {
    VarReader reader(head);
    TensorHead tensor;
    return DecodeTensorHead(&reader, &tensor).ok() && tensor.content.ToString() == "ab" && tensor.rank == 2;
  });
  ExpectWhole(std::string("\1\2ab", 4) + "c", [](ConstBytes content) {
    PackedTexts texts(content);
    ConstBytes first, second;
    return texts.Open(2) && texts.Next(&first) && texts.Next(&second) && second.ToString() == "bc";
  });
}

TEST(Heads, PlacesOfTasksAreReadAsTheyAreWritten) {
  const std::vector<Whereabout> said = {{"ps:3", "10.0.0.7:4711", 1, UINT64_MAX, 2}, {"ps:14", "[::1]:80", 3, 4, 300}};
  ExpectWhole(EncodeWhereabouts(said), [&said](ConstBytes in) {
    std::vector<Whereabout> read;
    return DecodeWhereabouts(in, &read).ok() && EncodeWhereabouts(read) == EncodeWhereabouts(said);
  });
  std::vector<Whereabout> read;
  EXPECT_TRUE(DecodeWhereabouts(ConstBytes(EncodeWhereabouts({})), &read).ok());
  EXPECT_TRUE(read.empty());
  for (const Whereabout& wrong : {Whereabout{"ps:3", "nowhere", 1, 2, 3}, Whereabout{"ps:3", "a:0", 1, 2, 3},
                                  Whereabout{std::string(2000, 'p'), "a:1", 1, 2, 3}})
    EXPECT_FALSE(DecodeWhereabouts(ConstBytes(EncodeWhereabouts({wrong})), &read).ok());
  EXPECT_FALSE(
      DecodeWhereabouts(ConstBytes(EncodeWhereabouts(std::vector<Whereabout>(kWhereaboutsMax + 1, said[0]))), &read)
          .ok());
}

TEST(Heads, WhatServersSayWhileATaskMovesIsReadAsItIsWritten) {
  ExpectWhole(EncodeHandOver({7, MoveWant::kRound}), [](ConstBytes in) {
    HandOver asked;
    return DecodeHandOver(in, &asked).ok() && asked.taker == 7 && asked.want == MoveWant::kRound;
  });
  ConstBytes fingerprint, request;
  EXPECT_TRUE(DecodePart(EncodePart("abc", "a graph"), &fingerprint, &request).ok());
  EXPECT_FALSE(DecodePart(ConstBytes("\5abc", 4), &fingerprint, &request).ok());
  std::string answer;
  AppendHandedOver({MoveSaid::kEnd, 300}, &answer);
  ExpectWhole(answer, [](ConstBytes in) {
    VarReader reader(in);
    HandedOver read;
    return DecodeHandedOver(&reader, &read).ok() && read.said == MoveSaid::kEnd && read.bytes == 300;
  });
  ExpectWhole(EncodeTakeTask({"ps:3", 1000}), [](ConstBytes in) {
    TakeTask read;
    return DecodeTakeTask(in, &read).ok() && read.task == "ps:3" && read.pause_ms_max == 1000;
  });
  std::string taken;
  AppendTakenTask({5, 2, "it is done"}, &taken);
  ExpectWhole(taken, [](ConstBytes in) {
    VarReader reader(in);
    TakenTask read;
    return DecodeTakenTask(&reader, &read).ok() && read.process == 5 && read.said == "it is done";
  });
  const std::string session = "a session", tensor = "a tensor";
  const std::string values =
      EncodeKeptTensors({{session, -6, 1, 2, tensor}, {session, 7, kKeptNumbersMax - 1, 1, ConstBytes()}});
  ExpectWhole(values, [&](ConstBytes in) {
    std::vector<KeptTensor> read;
    return DecodeKeptTensors(in, &read).ok() && read.size() == 2 && read[0].step == -6 && read[1].takers == 1 &&
           read[0].tensor.ToString() == tensor;
  });
}

TEST(Heads, MalformedMessagesOfAMoveAreRefused) {
  HandOver asked;
  std::vector<KeptTensor> values;
  EXPECT_FALSE(DecodeHandOver(EncodeHandOver({7, static_cast<MoveWant>(0)}), &asked).ok());
  EXPECT_FALSE(DecodeHandOver(EncodeHandOver({7, static_cast<MoveWant>(9)}), &asked).ok());
  EXPECT_FALSE(DecodeKeptTensors(EncodeKeptTensors({{{}, 1, 2, 0, {}}}), &values).ok());                // no taker
  EXPECT_FALSE(DecodeKeptTensors(EncodeKeptTensors({{{}, 1, kKeptNumbersMax, 1, {}}}), &values).ok());  // its number
  std::string many;
  AppendVarint(&many, 1'000'000);
  EXPECT_FALSE(DecodeKeptTensors(many, &values).ok());  // more than it has bytes
  TakeTask task;
  EXPECT_FALSE(DecodeTakeTask(EncodeTakeTask({std::string(2000, 'p'), 1}), &task).ok());
}

TEST(Heads, OfNumbersThatAreTooLargeAreRefused) {
  std::string text;
  AppendVarint(&text, kKeptNumbersMax);
  AppendVarint(&text, 1);
  VarReader kept_reader{ConstBytes(text)};
  KeptHead kept;
  EXPECT_FALSE(DecodeKeptHead(&kept_reader, &kept).ok());
  const std::string answer("\2\0", 2);
  VarReader answer_reader{ConstBytes(answer)};
  AnswerHead head;
  EXPECT_FALSE(DecodeAnswerHead(&answer_reader, 2, &head).ok());
  RunHead run;
  for (const std::string& wrong : {Fixed({1, 1}) + '\4', Fixed({1, 1}) + '\2' + Fixed({5}) + "\3\4",
                                   Fixed({1, 1}) + '\2' + Fixed({5}) + std::string("\3\0", 2)}) {
    VarReader run_reader{ConstBytes(wrong)};
    EXPECT_FALSE(DecodeRunHead(&run_reader, &run).ok());
  }
  ListHead list;
  EXPECT_FALSE(DecodeListHead(ConstBytes("\5\1", 2), &list).ok());
  std::string rank("\1\1", 2);
  AppendVarint(&rank, kTensorRankMax + 1);
  rank.append(300, '\1');
  VarReader rank_reader{ConstBytes(rank)};
  TensorHead tensor;
  EXPECT_FALSE(DecodeTensorHead(&rank_reader, &tensor).ok());
}

TEST(Heads, ADataPortIsReadAsItIsWritten) {
  DataPort said;
  said.port = 4567;
  said.incarnation = 0xabcdef;
  said.group_port = 4568;
  said.host = UINT64_MAX;
  said.group_age = 3;
  for (const char* host : {"", "2001:db8::1"}) {
    for (const uint64_t state : {uint64_t{0}, uint64_t{7}, UINT64_MAX}) {
      said.advertised = host;
      said.state = state;
      said.epoch = state == 7 ? 12 : 0;
      DataPort read;
      ASSERT_TRUE(DecodeDataPort(EncodeDataPort(said), &read));
      EXPECT_TRUE(read.fuses);
      EXPECT_EQ(read.state, state);
      EXPECT_EQ(read.epoch, said.epoch);
      EXPECT_EQ(read.advertised, host);
      EXPECT_EQ(EncodeDataPort(read), EncodeDataPort(said));
    }
  }
  DataPort none;
  EXPECT_FALSE(DecodeDataPort("fusewire 2 5 6", &none));
  EXPECT_FALSE(DecodeDataPort("fusewire 1 65536 6", &none));
}

}  // namespace
}  // namespace fusewire::tf

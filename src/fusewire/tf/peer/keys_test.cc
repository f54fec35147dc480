// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/peer/keys.h"

#include <string>
#include <vector>

#include "fusewire/base/random.h"
#include "fusewire/tf/heads/calls.h"
#include "fusewire/tf/peer/peer.h"

#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>
#include <tensorflow/core/framework/control_flow.h>

namespace fusewire::tf {
namespace {

std::string Key(const std::string& edge, uint64_t frame = 0, int64_t iteration = 0) {
  return tensorflow::Rendezvous::CreateKey("/job:ps/replica:0/task:0/device:CPU:0", 7,
                                           "/job:worker/replica:0/task:0/device:CPU:0", edge,
                                           tensorflow::FrameAndIter(frame, iteration));
}

struct CollectiveSpec {
  std::string key;
  int64_t step;
};

std::string Question(KeyNames* names, const std::vector<CollectiveSpec>& wanted) {
  std::string head;
  names->Begin(wanted.size(), &head);
  for (const CollectiveSpec& want : wanted) names->Append(want.key, want.step, &head);
  return head;
}

void ExpectRead(KeyLibrary* library, const std::string& head, const std::vector<CollectiveSpec>& wanted) {
  std::vector<Want> read;
  TfStatus error;
  ASSERT_TRUE(library->Read(head, &read, &error));
  ASSERT_TRUE(error.ok()) << error;
  ASSERT_EQ(read.size(), wanted.size());
  for (size_t i = 0; i < read.size(); ++i) {
    EXPECT_EQ(read[i].step, wanted[i].step);
    EXPECT_EQ(std::string(read[i].key->FullKey()), wanted[i].key);
  }
}

TEST(Keys, AreSentOnceAndThenAsNumbers) {
  KeyNames names;
  KeyLibrary library;
  std::vector<CollectiveSpec> wanted;
  for (int i = 0; i < 50; ++i) wanted.push_back({Key(absl::StrCat("edge_", i, "_dense/kernel/read")), 11});
  std::string first = Question(&names, wanted);
  ExpectRead(&library, first, wanted);
  EXPECT_GT(first.size(), 50u * 80);
  names.Known(names.said());
  for (CollectiveSpec& want : wanted) want.step = -12345678901234;
  std::string second = Question(&names, wanted);
  ExpectRead(&library, second, wanted);
  EXPECT_LE(second.size(), 8 + 1 + 8 + 50 * 2u);
}

TEST(Keys, AreSentAgainUntilTheFirstAnswer) {
  KeyNames names;
  KeyLibrary library;
  std::string lost = Question(&names, {{Key("edge_1_a"), 1}});
  std::string next = Question(&names, {{Key("edge_2_b"), 1}, {Key("edge_1_a"), 1}});
  ExpectRead(&library, next, {{Key("edge_2_b"), 1}, {Key("edge_1_a"), 1}});
}

TEST(Keys, KeepTheirFrames) {
  KeyNames names;
  KeyLibrary library;
  std::vector<CollectiveSpec> wanted = {{Key("edge_1_a", 5, 2), 1}, {Key("edge_1_a", 5, 3), 1}, {Key("edge_1_a"), 2}};
  for (int round = 0; round < 2; ++round) {
    ExpectRead(&library, Question(&names, wanted), wanted);
    names.Known(names.said());
  }
}

TEST(Keys, UnknownToTheLibraryAreRequestedAgain) {
  KeyNames names;
  KeyLibrary library;
  ExpectRead(&library, Question(&names, {{Key("edge_1_a"), 1}}), {{Key("edge_1_a"), 1}});
  names.Known(names.said());
  KeyLibrary restarted;
  std::vector<Want> read;
  TfStatus error;
  EXPECT_FALSE(restarted.Read(Question(&names, {{Key("edge_1_a"), 1}}), &read, &error));
  names.Forget();
  ExpectRead(&restarted, Question(&names, {{Key("edge_1_a"), 2}}), {{Key("edge_1_a"), 2}});
}

TEST(Keys, OfManyReceiversDoNotMix) {
  KeyLibrary library;
  std::vector<KeyNames> receivers(100);
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < receivers.size(); ++i) {
      std::vector<CollectiveSpec> wanted = {{Key(absl::StrCat("edge_1_of_", i)), round}};
      ExpectRead(&library, Question(&receivers[i], wanted), wanted);
      receivers[i].Known(receivers[i].said());
    }
  }
}

TEST(Keys, MalformedOnesAreAnError) {
  KeyNames names;
  KeyLibrary library;
  std::vector<Want> read;
  TfStatus error;
  EXPECT_TRUE(library.Read(Question(&names, {{"no key at all;0:0", 1}}), &read, &error));
  EXPECT_FALSE(error.ok());
}

// A byte would be enough to name one.
TEST(Keys, OfMoreTensorsThanACallMayAskForAreRefusedBeforeAnyIsRead) {
  KeyNames names;
  KeyLibrary library;
  ExpectRead(&library, Question(&names, std::vector<CollectiveSpec>(kWantsMax, {Key("edge"), 1})),
             std::vector<CollectiveSpec>(kWantsMax, {Key("edge"), 1}));
  names.Known(names.said());
  for (const size_t count : {kWantsMax + 1, size_t{800'000}}) {
    const std::string head = Question(&names, std::vector<CollectiveSpec>(count, {Key("edge"), 1}));
    std::vector<Want> read;
    TfStatus error;
    EXPECT_TRUE(library.Read(head, &read, &error));
    EXPECT_TRUE(absl::IsInvalidArgument(error)) << error;
    EXPECT_EQ(read.capacity(), 0u);
  }
}

// Number 5 leaves places for those before it, in which nothing stands.
TEST(Keys, OfNoLettersAreNotFoundInAnEmptyPlace) {
  KeyLibrary library;
  const auto ask = [&library](uint64_t number, const std::string& key) {
    std::string head;
    AppendFixed64(&head, 77);
    AppendVarint(&head, 1);
    AppendVarint(&head, number << 3 | 1);
    AppendText(&head, key);
    std::vector<Want> wants;
    TfStatus error;
    EXPECT_TRUE(library.Read(head, &wants, &error));
    for (const Want& want : wants) EXPECT_NE(want.key, nullptr);
    return error.ok();
  };
  const std::string key = Key("edge");
  EXPECT_TRUE(ask(5, key.substr(0, key.size() - 3)));  // without the outermost frame
  EXPECT_FALSE(ask(3, ""));
}

TEST(Keys, NeverCrashWhateverTheBytes) {
  Random random(20261121);
  KeyNames names;
  std::string good = Question(&names, {{Key("edge_1_a"), 1}, {Key("edge_2_b", 3, 4), 2}});
  KeyLibrary library;
  for (int round = 0; round < 100000; ++round) {
    std::string head = good;
    for (uint64_t mutations = random.Next() % 6; mutations > 0; --mutations)
      head[random.Next() % head.size()] = static_cast<char>(random.Next());
    head.resize(random.Next() % (head.size() + 1));
    std::vector<Want> read;
    TfStatus error;
    library.Read(head, &read, &error);
  }
}

TEST(PortWords, SayWhereTheDataPortIs) {
  tensorflow::LoggingRequest request;
  EXPECT_FALSE(PortWords::IsAsked(request));
  PortWords::Ask(&request);
  EXPECT_TRUE(PortWords::IsAsked(request));
  tensorflow::LoggingResponse response;
  PortWords said;
  said.port = 41234;
  said.incarnation = 0xfedcba9876543210;
  said.group_port = 41235;
  said.host = 0xffffffffffffffff;
  said.joins = true;
  said.Answer(&response);
  PortWords words;
  ASSERT_TRUE(words.Read(response));
  EXPECT_EQ(words.port, 41234);
  EXPECT_EQ(words.incarnation, 0xfedcba9876543210);
  EXPECT_EQ(words.group_port, 41235);
  EXPECT_EQ(words.host, 0xffffffffffffffff);
  EXPECT_TRUE(words.joins);
  EXPECT_TRUE(words.fuses);
}

TEST(PortWords, AreSentByTasksWithThePluginOnly) {
  tensorflow::LoggingResponse response;
  PortWords().Answer(&response);
  PortWords words;
  words.host = 7;
  ASSERT_TRUE(words.Read(response));
  EXPECT_EQ(words.port, 0);
  EXPECT_TRUE(words.fuses);
  EXPECT_EQ(words.host, 0U);
}

TEST(PortWords, OfEarlierAndLaterVersionsAreRead) {
  tensorflow::LoggingResponse response;
  PortWords().Answer(&response);
  std::string* device = response.mutable_step(0)->mutable_step_stats()->mutable_dev_stats(0)->mutable_device();
  PortWords words;
  words.host = 7;
  *device = "fusewire 1 41234 1";
  ASSERT_TRUE(words.Read(response));
  EXPECT_EQ(words.port, 41234);
  EXPECT_FALSE(words.fuses);
  EXPECT_EQ(words.group_port, 0);
  EXPECT_EQ(words.host, 0U);
  *device = "fusewire 1 41234 1 fuses 41235";
  words.host = 7;
  ASSERT_TRUE(words.Read(response));
  EXPECT_TRUE(words.fuses);
  EXPECT_EQ(words.group_port, 41235);
  EXPECT_EQ(words.host, 0U);
  *device = "fusewire 1 41234 1 fuses 41235 a7 and more";
  ASSERT_TRUE(words.Read(response));
  EXPECT_EQ(words.group_port, 41235);
  EXPECT_EQ(words.host, 0xa7U);
  *device = "fusewire 1 41234 1 fuses 41235 a7 3 gate.example.com and more";
  ASSERT_TRUE(words.Read(response));
  EXPECT_EQ(words.group_age, 3U);
  EXPECT_EQ(words.advertised, "gate.example.com");
}

TEST(PortWords, SayTheAddressOutside) {
  for (const char* host : {"gate.example.com", "203.0.113.9", "2001:db8::1"}) {
    tensorflow::LoggingResponse response;
    PortWords said;
    said.port = 41234;
    said.group_age = 2;
    said.advertised = host;
    said.Answer(&response);
    PortWords words;
    ASSERT_TRUE(words.Read(response));
    EXPECT_EQ(words.advertised, host);
    EXPECT_EQ(words.group_age, 2U);
  }
}

TEST(PortWords, WithAnInvalidHostHaveNone) {
  tensorflow::LoggingResponse response;
  PortWords().Answer(&response);
  std::string* device = response.mutable_step(0)->mutable_step_stats()->mutable_dev_stats(0)->mutable_device();
  for (const std::string& host :
       {std::string("[::1]"), std::string("a/b"), std::string("10.0.0.0/8"), std::string("]["), std::string("a\x01")}) {
    *device = "fusewire 1 41234 1 fuses 41235 a7 3 " + host;
    PortWords words;
    words.advertised = "before";
    ASSERT_TRUE(words.Read(response));
    EXPECT_EQ(words.advertised, "") << host;
  }
  *device = "fusewire 1 41234 1 fuses 41235 a7 3 " + std::string(100000, 'a');
  PortWords words;
  ASSERT_TRUE(words.Read(response));
  EXPECT_LE(words.advertised.size(), 255U);
}

TEST(PortWords, AreNotReadFromOtherAnswers) {
  PortWords read;
  tensorflow::LoggingResponse response;
  EXPECT_FALSE(read.Read(response));
  PortWords().Answer(&response);
  std::string* device = response.mutable_step(0)->mutable_step_stats()->mutable_dev_stats(0)->mutable_device();
  for (const char* words : {"", "fusewire", "fusewire 2 41234 1", "fusewire 1 70000 1", "other 1 2 3"}) {
    *device = words;
    EXPECT_FALSE(read.Read(response)) << words;
  }
}

// A number names a place in a list: a few bytes must not make it long.
TEST(Keys, OfAPeerThatCountsInLargeStepsAreRefused) {
  KeyLibrary library;
  size_t accepted = 0;
  for (uint64_t number = 60000; number < (uint64_t{1} << 26); number += 60000) {
    std::string head;
    AppendFixed64(&head, 77);
    AppendVarint(&head, 1);
    AppendVarint(&head, number << 3 | 3);
    AppendText(&head, Key("edge_1_a").substr(0, Key("edge_1_a").rfind(';') + 1));
    AppendFixed64(&head, 1);
    std::vector<Want> read;
    TfStatus error;
    ASSERT_TRUE(library.Read(head, &read, &error));
    accepted += error.ok() ? 1 : 0;
  }
  EXPECT_LE(accepted, (size_t{1} << 20) / 60000);
  EXPECT_LT(library.bytes(), size_t{64} << 20);
}

TEST(Keys, OfManyReceiversHoldNoMoreThanTheLibraryMay) {
  KeyLibrary library;
  const std::string long_edge(100000, 'e');
  for (int receiver = 0; receiver < 40; ++receiver) {
    KeyNames names;
    std::vector<CollectiveSpec> wanted;
    for (int i = 0; i < 100; ++i) wanted.push_back({Key(absl::StrCat(long_edge, receiver, "_", i)), 1});
    ExpectRead(&library, Question(&names, wanted), wanted);
  }
  EXPECT_GT(library.bytes(), size_t{512} << 20);
  EXPECT_LE(library.bytes(), size_t{1} << 30);
}

TEST(Keys, ThatCannotBeReadAreNotRemembered) {
  KeyLibrary library;
  std::string head;
  AppendFixed64(&head, 78);
  AppendVarint(&head, 1);
  AppendVarint(&head, 1 << 3 | 3);
  AppendText(&head, std::string("no key at all;"));
  AppendFixed64(&head, 1);
  std::vector<Want> read;
  TfStatus error;
  ASSERT_TRUE(library.Read(head, &read, &error));
  EXPECT_FALSE(error.ok());
  head.clear();
  AppendFixed64(&head, 78);
  AppendVarint(&head, 1);
  AppendVarint(&head, 1 << 3 | 2);
  AppendFixed64(&head, 1);
  error = TfStatus();
  EXPECT_FALSE(library.Read(head, &read, &error));
}

}  // namespace
}  // namespace fusewire::tf

// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Each parser of messages between tasks, with the messages of a lying peer: correct ones, slightly altered. TensorFlow
// is too large for a fuzz target, so a bounded number of them is drawn here, by a seed. For every input: no crash, no
// memory beyond what its bytes justify, and an accepted message encodes to the same bytes again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <tensorflow/core/common_runtime/device_factory.h>
#include <tensorflow/core/framework/control_flow.h>
#include <tensorflow/core/framework/variant.h>
#include <tensorflow/core/framework/variant_encode_decode.h>
#include <tensorflow/core/public/session_options.h>

#include "fusewire/base/random.h"
#include "fusewire/tf/bridge/status.h"
#include "fusewire/tf/bridge/tensor.h"
#include "fusewire/tf/peer/fused.h"
#include "fusewire/tf/peer/keys.h"
#include "fusewire/tf/peer/peer.h"
#include "fusewire/tf/server/network.h"
#include "fusewire/wire/wire.h"

namespace fusewire::tf {
namespace {

using tensorflow::Tensor;
using tensorflow::TensorShape;

constexpr int kDraws = 20000;

// Alters one text of several: changes, removes, repeats or inserts bytes, or appends another text's.
class Mutator {
 public:
  explicit Mutator(std::vector<std::string> texts) : random_(seed_), texts_(std::move(texts)) {}
  uint64_t seed() const { return seed_; }
  std::string Draw() {
    std::string text = texts_[random_.Below(texts_.size())];
    for (uint64_t left = random_.Below(5); left > 0; --left) Mutate(&text);
    return text;
  }

 private:
  void Mutate(std::string* text) {
    static constexpr char kExtremes[] = {'\0', '\1', '\x7f', '\x80', '\xff', '='};
    const size_t at = random_.Below(text->size() + 1);
    const size_t bytes = std::min<size_t>(1 + random_.Below(9), text->size() - at);
    switch (random_.Below(6)) {
      case 0: std::fill_n(text->begin() + static_cast<std::ptrdiff_t>(at), bytes, kExtremes[random_.Below(6)]); break;
      case 1:
        if (at < text->size()) (*text)[at] = static_cast<char>(random_.Next());
        break;
      case 2: text->erase(at, bytes); break;
      case 3: text->insert(at, text->substr(at, bytes)); break;
      case 4: text->resize(at); break;
      default: {
        const std::string& other = texts_[random_.Below(texts_.size())];
        text->replace(at, std::string::npos, other.substr(std::min(at, other.size())));
      }
    }
  }

  const uint64_t seed_ = SystemRandom64();
  Random random_;
  const std::vector<std::string> texts_;
};

void ForDraws(std::vector<std::string> texts, const std::function<void(const std::string&)>& read) {
  Mutator mutator(std::move(texts));
  SCOPED_TRACE("seed " + std::to_string(mutator.seed()));
  std::printf("seed %llu\n", static_cast<unsigned long long>(mutator.seed()));
  for (int i = 0; i < kDraws && !testing::Test::HasFailure(); ++i) read(mutator.Draw());
}

tensorflow::Device* HostCpu() {
  static tensorflow::Device* cpu =
      tensorflow::DeviceFactory::NewDevice("CPU", tensorflow::SessionOptions(), "/job:a/replica:0/task:0").release();
  return cpu;
}

std::vector<Tensor> SomeTensors() {
  std::vector<Tensor> tensors = {Tensor(3.5), Tensor(tensorflow::DT_INT32, TensorShape({3, 2})),
                                 Tensor(tensorflow::DT_STRING, TensorShape({2})),
                                 Tensor(tensorflow::DT_VARIANT, TensorShape({})), Tensor()};
  tensors[1].flat<int32_t>().setConstant(7);
  tensors[2].flat<tensorflow::tstring>()(0) = "some words";
  tensors[3].scalar<tensorflow::Variant>()() = Tensor(tensorflow::DT_INT64, TensorShape({2}));
  return tensors;
}

// Where segments would stand, the sizes of a frame that are as wrong as the rest.
TEST(Parsers, RowsOfTensors) {
  std::vector<std::string> texts;
  std::string all;
  for (const Tensor& tensor : SomeTensors()) {
    std::string one;
    Buffers body;
    ASSERT_TRUE(AppendTensor(tensor, &one, &body).ok());
    all += one;
    texts.push_back(one + one);
  }
  texts.push_back(all);
  std::string large;
  Buffers body;
  Tensor numbers(tensorflow::DT_FLOAT, TensorShape({1000}));
  numbers.flat<float>().setZero();
  ASSERT_TRUE(AppendTensor(numbers, &large, &body).ok());
  texts.push_back(large + all);
  TensorPlace place;
  place.device = HostCpu();
  int taken = 0;
  ForDraws(texts, [&](const std::string& text) {
    wire::FrameHeader header;
    header.segments = text.size() % 3 == 0 ? 0 : 1;
    header.body_bytes = header.segments == 0 ? 0 : text.size() % 7 == 0 ? text.size() : 4000;
    rpc::SegmentSizes sizes(header, ConstBytes());
    TensorLandings landings(header.segments == 0 ? nullptr : &sizes);
    VarReader reader{ConstBytes(text)};
    while (!reader.done()) {
      if (!landings.Begin(&reader, place).ok()) return;
    }
    if (!landings.EndOfMessage().ok()) return;
    const pipe::Landing where = landings.Where();
    for (size_t i = 0; i < where.count; ++i) std::fill_n(where.parts[i].data, where.parts[i].size, uint8_t{1});
    std::vector<Tensor> made;
    if (!landings.Finish(place, &made).ok()) return;
    ++taken;
    for (const Tensor& tensor : made) {
      std::string again;
      Buffers again_body;
      EXPECT_TRUE(AppendTensor(tensor, &again, &again_body).ok());
    }
  });
  EXPECT_GT(taken, kDraws / 50);
}

std::string EdgeKey(const std::string& edge) {
  return tensorflow::Rendezvous::CreateKey("/job:ps/replica:0/task:0/device:CPU:0", 7,
                                           "/job:worker/replica:0/task:0/device:CPU:0", edge,
                                           tensorflow::FrameAndIter(0, 0));
}

TEST(Parsers, QuestionsOfKeys) {
  std::vector<std::string> texts;
  KeyNames names;
  for (int question = 0; question < 4; ++question) {
    std::string head;
    names.Begin(3, &head);
    for (int i = 0; i < 3; ++i) names.Append(EdgeKey("edge_" + std::to_string(question + i)), question, &head);
    if (question == 1) names.Known(names.said());
    texts.push_back(head);
  }
  KeyLibrary library;
  ForDraws(texts, [&library](const std::string& text) {
    std::vector<Want> wants;
    TfStatus error;
    if (!library.Read(ConstBytes(text), &wants, &error) || !error.ok()) return;
    for (const Want& want : wants) EXPECT_NE(want.key, nullptr);
    EXPECT_LE(wants.size(), text.size());
  });
  EXPECT_LT(library.bytes(), size_t{64} << 20);
}

TEST(Parsers, FusedQuestions) {
  ParsedKeys keys(3);
  for (size_t i = 0; i < keys.size(); ++i)
    ASSERT_TRUE(tensorflow::Rendezvous::ParseKey(EdgeKey("edge_" + std::to_string(i)), &keys[i]).ok());
  tensorflow::RecvTensorRequest asked;
  AskFused(keys, &asked);
  ForDraws({std::string(asked.transport_options().value())}, [&asked](const std::string& text) {
    tensorflow::RecvTensorRequest request = asked;
    request.mutable_transport_options()->set_value(text);
    ParsedKeys read;
    const bool taken = ReadFused(request, &read).ok();
    EXPECT_TRUE(!taken || !read.empty());
  });
  // As many keys as bytes, but no byte is a key.
  std::string claims;
  AppendVarint(&claims, 1000000);
  asked.mutable_transport_options()->set_value(claims + std::string(1000000, '\0'));
  ParsedKeys none;
  EXPECT_FALSE(ReadFused(asked, &none).ok());
  EXPECT_LT(none.capacity(), 100u);
}

TEST(Parsers, StatusesOfTensorFlow) {
  TfStatus status = absl::NotFoundError("no such table");
  status.SetPayload("url", absl::Cord("payload"));
  std::string text;
  AppendTfStatus(status, &text);
  ForDraws({text, std::string(1, '\0')}, [](const std::string& mutated) {
    VarReader reader{ConstBytes(mutated)};
    TfStatus read;
    if (!ReadTfStatus(&reader, &read).ok()) return;
    std::string again;
    AppendTfStatus(read, &again);
    VarReader twice{ConstBytes(again)};
    TfStatus same;
    EXPECT_TRUE(ReadTfStatus(&twice, &same).ok());
    EXPECT_EQ(same.message(), read.message());
  });
}

TEST(Parsers, AnswersAboutPorts) {
  PortWords words;
  words.port = 4567;
  words.incarnation = 0xabcdef;
  words.group_port = 4568;
  words.host = 77;
  words.advertised = "2001:db8::1";
  tensorflow::LoggingResponse answer;
  words.Answer(&answer);
  std::string* device = answer.mutable_step(0)->mutable_step_stats()->mutable_dev_stats(0)->mutable_device();
  int taken = 0;
  ForDraws({std::string(*device), "fusewire 1 5 6", "fusewire 1 99999999999999999999 -1 fuses 70000 x -9"},
           [&](const std::string& text) {
             *device = text;
             PortWords read;
             taken += read.Read(answer) ? 1 : 0;
             if (read.advertised.empty()) return;
             const transport::Address where{read.advertised, 1};
             EXPECT_EQ(transport::Address::Parse(where.ToString()).value().host, read.advertised);
           });
  EXPECT_GT(taken, 0);
}

TEST(Parsers, FilesAndSettings) {
  ForDraws({"# two\n\nhost:1=data:2\r\n10.0.0.1:3=[::1]:4\n", "a:1=b:2", "x\ny=z\n"}, [](const std::string& text) {
    std::string bad;
    for (const auto& [from, to] : ParseEndpointMap(text, &bad)) {
      EXPECT_TRUE(transport::Address::Parse(from).ok());
      EXPECT_TRUE(transport::Address::Parse(to).ok());
    }
    EXPECT_LT(bad.size(), 600u);
  });
  ForDraws({"40000-40100", "7", "1-65535"}, [](const std::string& text) {
    pipe::PortRange ports;
    if (!ParsePorts(text, &ports)) return;
    EXPECT_GE(ports.min, 1);
    EXPECT_LE(ports.min, ports.max);
  });
  ForDraws({"host:7", "[::1]:7", "2001:db8::1", "gate.example.com"}, [](const std::string& text) {
    transport::Address address;
    if (!ParseAdvertise(text, &address).ok()) return;
    EXPECT_NE(address.host, "");
    EXPECT_EQ(transport::Address::Parse(address.ToString()).value().host, address.host);
  });
}

}  // namespace
}  // namespace fusewire::tf

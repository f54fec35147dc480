// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// One segment of more than 4 GiB over TCP, and more of them than 32 bits can count. The memory on both sides is one
// small piece, mapped again and again, so that the test needs no large machine.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/base/random.h"
#include "fusewire/reactor/completion.h"
#include "fusewire/rpc/rpc.h"

namespace fusewire {
namespace {

constexpr uint64_t kPieceBytes = 32 << 20;
constexpr uint64_t kLargeBytes = (uint64_t{4} << 30) + 12345;

// Looks like kLargeBytes, is kPieceBytes.
class LoopedMemory {
 public:
  LoopedMemory() {
    int fd = memfd_create("looped", MFD_CLOEXEC);
    EXPECT_EQ(ftruncate(fd, kPieceBytes), 0);
    start_ = static_cast<uint8_t*>(mmap(nullptr, kMappedBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_NE(start_, MAP_FAILED);
    for (uint64_t at = 0; at < kMappedBytes; at += kPieceBytes) {
      EXPECT_NE(mmap(start_ + at, kPieceBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0), MAP_FAILED);
    }
    close(fd);
  }
  ~LoopedMemory() { munmap(start_, kMappedBytes); }
  LoopedMemory(const LoopedMemory&) = delete;
  LoopedMemory& operator=(const LoopedMemory&) = delete;

  Bytes bytes() const { return Bytes(start_, kLargeBytes); }
  Bytes piece() const { return Bytes(start_, kPieceBytes); }

 private:
  static constexpr uint64_t kMappedBytes = (kLargeBytes / kPieceBytes + 1) * kPieceBytes;
  uint8_t* start_ = nullptr;
};

class LandingCall final : public rpc::Call {
 public:
  LandingCall(uint16_t method_in, std::vector<Bytes> parts) : Call(method_in), parts_(std::move(parts)) {}
  reactor::Completion ended;

 private:
  Result<pipe::Landing> Land(ConstBytes, const rpc::SegmentSizes& sizes) override {
    EXPECT_EQ(sizes.count(), parts_.size());
    EXPECT_EQ(sizes.at(1), kLargeBytes);
    EXPECT_EQ(sizes.total(), kLargeBytes + 3 + 5);
    return pipe::Landing::Into(parts_.data(), parts_.size());
  }
  void OnDone(Status status) override { ended.Done(std::move(status)); }
  const std::vector<Bytes> parts_;
};

TEST(Large, ASegmentOfMoreThanFourGibibytesTravels) {
  constexpr uint16_t kLarge = 1;
  LoopedMemory sent, landed;
  Random random(4);
  for (uint64_t at = 0; at < kPieceBytes; at += sizeof(uint64_t)) {
    uint64_t word = random.Next();
    std::memcpy(sent.piece().data + at, &word, sizeof(word));
  }
  std::string front("abc"), back("defgh"), landed_front(3, 0), landed_back(5, 0);
  task::TaskOptions server_options, client_options;
  server_options.pipe.name = "ps:0";
  client_options.pipe.name = "worker:0";
  auto server_task = task::Task::Start(std::move(server_options)),
       client_task = task::Task::Start(std::move(client_options));
  ASSERT_TRUE(server_task.ok() && client_task.ok());
  std::vector<rpc::Method> methods(1);
  methods[0].number = kLarge;
  methods[0].name = "large";
  methods[0].handle = [&](rpc::Request, rpc::Reply reply) {
    Buffers body;
    body.push_back(Buffer::CopyOf(front));
    body.push_back(Buffer::WrapReadOnly(sent.bytes(), nullptr, nullptr));
    body.push_back(Buffer::CopyOf(back));
    reply.Send(Status::Ok(), ConstBytes(), std::move(body));
  };
  auto server = rpc::Server::Open(*server_task.value(), {"127.0.0.1", 0}, std::move(methods));
  ASSERT_TRUE(server.ok()) << server.status().ToString();
  uint64_t large_copies = ReadCopyCounts().large_copies;
  {
    rpc::Client client(*client_task.value(), server.value()->address());
    LandingCall call(kLarge, {Bytes(landed_front.data(), 3), landed.bytes(), Bytes(landed_back.data(), 5)});
    call.timeout_ns = 100 * kSecondNs;
    client.StartAndWait(&call, &call.ended);
    ASSERT_TRUE(call.ended.status().ok()) << call.ended.status().ToString();
    EXPECT_GT(client.Snapshot().bytes_in, kLargeBytes);
  }
  EXPECT_EQ(landed_front, front);
  EXPECT_EQ(landed_back, back);
  EXPECT_EQ(std::memcmp(sent.piece().data, landed.piece().data, kPieceBytes), 0);
  EXPECT_EQ(ReadCopyCounts().large_copies, large_copies);
}

}  // namespace
}  // namespace fusewire

// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/layer_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>

#include "fusewire/base/clock.h"

namespace fusewire::transport {
namespace {

using testing::HasSubstr;

std::string Out(Session* session) {
  std::string bytes(reinterpret_cast<const char*>(session->out().data), session->out().size);
  session->Sent(bytes.size());
  return bytes;
}

// What a session that has said `text` sends.
std::string Stream(const std::string& text) {
  std::unique_ptr<Session> session = MakeChecksumSession();
  EXPECT_TRUE(session->Handshake().ok());
  EXPECT_TRUE(session->Write(ConstBytes(text)).ok());
  return Out(session.get());
}

// What a session reads of a stream that comes in pieces of this size.
std::string Heard(const std::string& stream, size_t piece, Status* status) {
  std::unique_ptr<Session> session = MakeChecksumSession();
  EXPECT_TRUE(session->Handshake().ok());
  std::string heard;
  *status = Status::Ok();
  for (size_t at = 0; at < stream.size() && status->ok(); at += piece) {
    session->Feed(ConstBytes(stream).Sub(at, std::min(piece, stream.size() - at)));
    uint8_t room[1000];
    for (size_t got = 1; got > 0 && status->ok();) {
      Result<size_t> read = session->Read(Bytes(room, sizeof(room)));
      *status = read.status();
      got = read.ok() ? read.value() : 0;
      heard.append(reinterpret_cast<const char*>(room), got);
    }
    session->KeepRest();
  }
  return heard;
}

std::string Noise(size_t bytes) {
  std::mt19937 random(7);
  std::string text(bytes, ' ');
  for (char& letter : text) letter = static_cast<char>(random());
  return text;
}

TEST(Checksum, ArrivesInPiecesOfAnySize) {
  for (const size_t bytes : {size_t{1}, size_t{16384}, size_t{16385}, size_t{100000}}) {
    const std::string text = Noise(bytes);
    for (const size_t piece : {size_t{1}, size_t{7}, size_t{20000}, size_t{1} << 20}) {
      Status status;
      EXPECT_EQ(Heard(Stream(text), piece, &status), text) << bytes << " in pieces of " << piece;
      EXPECT_TRUE(status.ok()) << status.ToString();
    }
  }
}

TEST(Checksum, NoFlippedBitIsDelivered) {
  const std::string text = Noise(60);
  const std::string stream = Stream(text);
  for (size_t bit = 0; bit < 8 * stream.size(); ++bit) {
    std::string changed = stream;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << bit % 8));
    Status status;
    EXPECT_EQ(Heard(changed, stream.size(), &status), "") << bit;
    // A longer record waits for its rest.
    if (status.ok()) {
      EXPECT_TRUE(bit / 8 >= 8 && bit / 8 < 12) << bit;
    } else {
      EXPECT_EQ(status.code(), Code::kCorrupt) << bit;
    }
  }
}

TEST(Checksum, MemoryThatChangesMeanwhileIsNotAFault) {
  // As a variable's: what was read last is what was checked.
  std::string text = Noise(5000);
  std::unique_ptr<Session> session = MakeChecksumSession();
  ASSERT_TRUE(session->Handshake().ok());
  ASSERT_TRUE(session->Write(ConstBytes(text)).ok());
  const std::string before = text;
  text.assign(5000, 'x');
  Status status;
  EXPECT_EQ(Heard(Out(session.get()), 100, &status), before);
}

TEST(Checksum, APeerWithoutIsToldWhy) {
  Status status;
  EXPECT_EQ(Heard("FUSEWIRE and more", 5, &status), "");
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_THAT(status.ToString(), HasSubstr("FUSEWIRE_CHECKSUM"));
}

TEST(Checksum, AnyBytesEndInWords) {
  std::mt19937 random(3);
  for (int round = 0; round < 2000; ++round) {
    std::string stream = Stream("a").substr(0, 8);
    for (size_t left = random() % 100; left > 0; --left) stream += static_cast<char>(random());
    Status status;
    EXPECT_EQ(Heard(stream, 1 + random() % 50, &status), "");
  }
}

}  // namespace
}  // namespace fusewire::transport

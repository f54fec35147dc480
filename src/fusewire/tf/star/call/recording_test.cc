// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/star/call/recording.h"

#include <fstream>
#include <iterator>
#include <string>

#include "fusewire/tf/bridge/status.h"
#include "fusewire/tf/heads/calls.h"
#include "fusewire/tf/heads/varint.h"

#include <gtest/gtest.h>

namespace fusewire::tf {
namespace {

class RecordingTest : public testing::Test {
 protected:
  ~RecordingTest() override { records_calls.store(false); }

  static std::string PathOf(const std::string& name) { return testing::TempDir() + "/recording_" + name; }
  static std::string ContentOf(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }

  const transport::Address address_{"ps", 5555};
};

TEST_F(RecordingTest, WritesWhatIsCalledAsItIsCalled) {
  const std::string path = PathOf("one");
  RecordTo(path);
  ASSERT_TRUE(RecordsCalls());
  RecordPlaced(address_, 17, "session", "fingerprint");
  Buffers body;
  body.push_back(Buffer::CopyOf(ConstBytes("first", 5)));
  body.push_back(Buffer::CopyOf(ConstBytes("second", 6)));
  RecordRun(address_, 17, "head", body);
  const std::string content = ContentOf(path);  // at once, though the file is still open
  ASSERT_EQ(content.substr(0, 8), "FWRECORD");
  VarReader reader(ConstBytes(content).From(8));
  EXPECT_EQ(reader.Byte(), kPlacePart);
  EXPECT_EQ(View(reader.Text()), address_.ToString());
  EXPECT_EQ(reader.Fixed64(), 17u);
  EXPECT_EQ(View(reader.Text()), "session");
  EXPECT_EQ(View(reader.Text()), "fingerprint");
  EXPECT_EQ(reader.Byte(), kRunPart);
  EXPECT_EQ(View(reader.Text()), address_.ToString());
  EXPECT_EQ(reader.Fixed64(), 17u);
  EXPECT_EQ(View(reader.Text()), "head");
  EXPECT_EQ(reader.Varint(), 2u);
  EXPECT_EQ(View(reader.Text()), "first");
  EXPECT_EQ(View(reader.Text()), "second");
  EXPECT_TRUE(reader.ok());
  EXPECT_TRUE(reader.done());
}

TEST_F(RecordingTest, GoesOnInAnotherFileAndIsNotBegunTwice) {
  const std::string first = PathOf("first"), second = PathOf("second");
  RecordTo(first);
  RecordPlaced(address_, 1, "", "");
  const size_t bytes = ContentOf(first).size();
  RecordTo(first);
  RecordTo("");
  EXPECT_EQ(ContentOf(first).size(), bytes);
  RecordTo(second);
  RecordPlaced(address_, 2, "", "");
  EXPECT_EQ(ContentOf(first).size(), bytes);
  EXPECT_EQ(ContentOf(second).size(), bytes);
}

TEST_F(RecordingTest, EndsWhereNothingCanBeWritten) {
  RecordTo(PathOf("good"));
  ASSERT_TRUE(RecordsCalls());
  RecordTo(testing::TempDir() + "/no such folder/record");
  EXPECT_FALSE(RecordsCalls());
}

}  // namespace
}  // namespace fusewire::tf

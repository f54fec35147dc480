// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/server/secret.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fusewire::tf {
namespace {

using testing::HasSubstr;

class SecretFile : public testing::Test {
 protected:
  SecretFile() {
    char name[] = "/tmp/fusewire-secret-XXXXXX";
    folder_ = mkdtemp(name);
    path_ = folder_ + "/secret";
  }
  ~SecretFile() override {
    unlink(path_.c_str());
    unlink((folder_ + "/link").c_str());
    rmdir(folder_.c_str());
  }
  void Write(const std::string& text, mode_t mode = 0400) {
    unlink(path_.c_str());
    std::ofstream(path_, std::ios::binary) << text;
    ASSERT_EQ(chmod(path_.c_str(), mode), 0);
  }
  std::string Refused() {
    const Result<std::string> read = ReadSecret("", path_);
    if (read.ok()) return "ok";
    EXPECT_THAT(read.status().cause(), HasSubstr("FUSEWIRE_SECRET_FILE, " + path_ + ": "));
    EXPECT_THAT(read.status().ToString(), testing::Not(HasSubstr("sesame")));
    EXPECT_FALSE(read.status().next().empty());
    return read.status().ToString();
  }
  std::string folder_, path_;
};

TEST_F(SecretFile, IsReadWithoutItsLastNewline) {
  for (const mode_t mode : {0400, 0600, 0500}) {
    Write("open sesame, open\n", mode);
    EXPECT_EQ(ReadSecret("", path_).value(), "open sesame, open");
  }
  Write("open sesame, open");
  EXPECT_EQ(ReadSecret("", path_).value(), "open sesame, open");
  ASSERT_EQ(symlink("secret", (folder_ + "/link").c_str()), 0);  // as Kubernetes mounts a Secret
  EXPECT_EQ(ReadSecret("", folder_ + "/link").value(), "open sesame, open");
}

TEST_F(SecretFile, TheVariableIsEnough) {
  EXPECT_EQ(ReadSecret("word", "").value(), "word");
  EXPECT_EQ(ReadSecret("", "").value(), "");
}

TEST_F(SecretFile, BothAreAnError) {
  Write("open sesame, open");
  const Result<std::string> read = ReadSecret("word", path_);
  ASSERT_FALSE(read.ok());
  EXPECT_THAT(read.status().ToString(), HasSubstr("both set; next: unset one of them"));
}

TEST_F(SecretFile, WhatOthersCanReachIsRefused) {
  for (const mode_t mode : {0404, 0644, 0444}) {
    Write("open sesame, open", mode);
    EXPECT_THAT(Refused(), HasSubstr("others can read it; next: chmod 400")) << mode;
  }
  for (const mode_t mode : {0420, 0402, 0666}) {
    Write("open sesame, open", mode);
    EXPECT_THAT(Refused(), HasSubstr("others can write it; next: chmod 400")) << mode;
  }
  Write("open sesame, open", 0440);
  EXPECT_THAT(Refused(), geteuid() == 0 ? HasSubstr("ok") : HasSubstr("its group can read it; next: chmod 400"));
  if (geteuid() != 0) return;
  Write("open sesame, open");
  ASSERT_EQ(chown(path_.c_str(), 12345, 12345), 0);
  EXPECT_THAT(Refused(), HasSubstr("belongs to another user"));
}

TEST_F(SecretFile, WhatIsNoLineOfTextIsRefused) {
  EXPECT_THAT(Refused(), HasSubstr("No such file"));
  for (const std::string& text :
       {std::string(), std::string("\n"), std::string("open sesame\nopen sesame\n"), std::string("open sesame\r\n"),
        std::string("open\0sesame", 11), std::string("open s\xc3\xa9same")}) {
    Write(text);
    EXPECT_THAT(Refused(), HasSubstr("is not one line of ASCII text; next: openssl rand")) << text;
  }
  Write(std::string(5000, 'x'));
  EXPECT_THAT(Refused(), HasSubstr("more than 4096 bytes"));
  unlink(path_.c_str());
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THAT(Refused(), HasSubstr("it is no file"));
}

}  // namespace
}  // namespace fusewire::tf

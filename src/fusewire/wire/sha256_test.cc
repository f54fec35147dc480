// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>

#include "fusewire/wire/golden_test.h"
#include "fusewire/wire/hello.h"

namespace fusewire::wire {
namespace {

std::string Hex(const std::array<uint8_t, 32>& digest) {
  std::string text;
  for (char c : Draw(ConstBytes(digest.data(), digest.size()))) {
    if (c != ' ') text += c;
  }
  return text;
}

std::string CountingUpTo(size_t size, size_t wrap) {
  std::string bytes;
  for (size_t i = 0; i < size; ++i) bytes += static_cast<char>(i % wrap);
  return bytes;
}

TEST(Sha256, GivesThePublishedValues) {  // FIPS 180-4 and its companion examples
  EXPECT_EQ(Hex(Sha256(ConstBytes())), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Hex(Sha256(std::string("abc"))), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Hex(Sha256(std::string("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"))),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(Hex(Sha256(std::string("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
                                   "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu"))),
            "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
  EXPECT_EQ(Hex(Sha256(std::string(1000000, 'a'))), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// Every place at which a block may end: the digest of all digests, computed by another implementation.
TEST(Sha256, AgreesWithAnotherImplementationForEachLength) {
  std::string digests;
  for (size_t size = 0; size < 300; ++size) {
    const auto digest = Sha256(CountingUpTo(size, 251));
    digests.append(reinterpret_cast<const char*>(digest.data()), digest.size());
  }
  EXPECT_EQ(Hex(Sha256(digests)), "fa70b867db0a30acb7218d62945db0df52eb393808b30675ea9aac6b058a9a9d");
}

struct Rfc4231 {
  std::string key;
  std::string message;
  const char* digest;
};

TEST(HmacSha256, GivesThePublishedValues) {  // RFC 4231, sections 4.2 to 4.8
  const Rfc4231 cases[] = {
      {std::string(20, '\x0b'), "Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"},
      {"Jefe", "what do ya want for nothing?", "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
      {std::string(20, '\xaa'), std::string(50, '\xdd'),
       "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"},
      {CountingUpTo(26, 256).substr(1, 25), std::string(50, '\xcd'),
       "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b"},
      {std::string(20, '\x0c'), "Test With Truncation", "a3b6167473100ee06e0c796c2955552b"},
      {std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First",
       "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"},
      {std::string(131, '\xaa'),
       "This is a test using a larger than block-size key and a larger than block-size data. The key needs to be "
       "hashed "
       "before being used by the HMAC algorithm.",
       "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2"},
  };
  for (const Rfc4231& one : cases) {
    const std::string expected = one.digest;
    EXPECT_EQ(Hex(HmacSha256(one.key, one.message)).substr(0, expected.size()), expected) << one.message;
  }
}

TEST(HmacSha256, AgreesWithAnotherImplementationForEachLength) {
  std::string digests;
  for (size_t size = 0; size < 200; ++size) {
    const auto digest = HmacSha256(CountingUpTo(size, 7), CountingUpTo(size, 251));
    digests.append(reinterpret_cast<const char*>(digest.data()), digest.size());
  }
  EXPECT_EQ(Hex(Sha256(digests)), "25f7beec032871f4e3787bdb8a431ef5153a0d30ec905dae2dc2db1d91bfc1bd");
}

}  // namespace
}  // namespace fusewire::wire

// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/wire/hello.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "fusewire/base/check.h"
#include "fusewire/wire/coder.h"
#include "fusewire/wire/wire.h"

namespace fusewire::wire {
namespace {

constexpr std::string_view kMagic = "FUSEWIRE";
constexpr size_t kBodyBytesMax = kGreetingBytesMax - kGreetingPrefixBytes;
constexpr uint16_t kSecretFlag = 1;

static_assert(kMagic.size() == kMagicBytes && kMagicBytes + 8 == kGreetingPrefixBytes);
// The longest message is a welcome with two full names and a proof; a refusal is shorter.
static_assert(68 + 2 * kNameBytesMax + sizeof(Proof) <= kBodyBytesMax);
static_assert(3 + kRefusalWhyBytesMax <= kBodyBytesMax);

bool IsControl(char c) { return static_cast<uint8_t>(c) < 0x20 || c == 0x7f; }

// `missing_bytes` of the body are appended by the caller.
std::string Greeting(GreetingKind kind, const std::string& body, size_t missing_bytes = 0) {
  const size_t body_bytes = body.size() + missing_bytes;
  FUSEWIRE_CHECK(body_bytes <= kBodyBytesMax);
  std::string out(kMagic);
  Append(&out, kVersion);
  Append(&out, kVersionMin);
  Append(&out, static_cast<uint8_t>(kind));
  Append(&out, uint8_t{0});
  Append(&out, static_cast<uint16_t>(body_bytes));
  return out + body;
}

std::string HelloBody(const Hello& hello) {
  FUSEWIRE_CHECK(CheckHello(hello).ok());
  std::string body;
  Append(&body, hello.features);
  Append(&body, hello.incarnation);
  body.append(reinterpret_cast<const char*>(hello.nonce.data()), hello.nonce.size());
  Append(&body, hello.chunk_bytes);
  Append(&body, hello.window_bytes);
  Append(&body, hello.service);
  Append(&body, static_cast<uint16_t>(hello.has_secret ? kSecretFlag : 0));
  AppendText(&body, hello.cluster);
  AppendText(&body, hello.name);
  return body;
}

Status CheckEnd(const Reader& reader, const char* what) {
  if (!reader.ok()) return Truncated(what);
  if (reader.left().empty()) return Status();
  return Status::Corrupt(std::string(what) + ": " + std::to_string(reader.left().size) + " bytes after its end");
}

template <class Array>
void TakeArray(Reader* reader, Array* out) {
  const ConstBytes taken = reader->Take(out->size());
  if (taken.data == nullptr) return;  // truncated; the reader records that
  std::memcpy(out->data(), taken.data, taken.size);
}

template <class Array>
Result<Array> DecodeArray(ConstBytes body, const char* what) {
  Reader reader(body);
  Array array{};
  TakeArray(&reader, &array);
  FUSEWIRE_TRY(CheckEnd(reader, what));
  return array;
}

// The common part of hello and welcome.
Status ReadHello(Reader* reader, const char* what, Hello* hello) {
  hello->features = reader->Number<uint64_t>();
  hello->incarnation = reader->Number<uint64_t>();
  TakeArray(reader, &hello->nonce);
  hello->chunk_bytes = reader->Number<uint32_t>();
  hello->window_bytes = reader->Number<uint64_t>();
  hello->service = reader->Number<uint16_t>();
  const uint16_t flags = reader->Number<uint16_t>();
  const ConstBytes cluster = reader->Text();
  const ConstBytes name = reader->Text();
  if (!reader->ok()) return Truncated(what);
  if ((flags & ~kSecretFlag) != 0) {
    return Status::Corrupt(std::string(what) + ": flags " + std::to_string(flags) + ", limit " +
                           std::to_string(kSecretFlag));
  }
  hello->has_secret = (flags & kSecretFlag) != 0;
  hello->cluster.assign(reinterpret_cast<const char*>(cluster.data), cluster.size);
  hello->name.assign(reinterpret_cast<const char*>(name.data), name.size);
  Status checked = CheckHello(*hello);
  return checked.ok() ? checked : Status::Corrupt(std::string(what) + ": " + checked.cause());
}

// Other protocols that connect to an open port, or answer at a wrong one.
struct Stranger {
  std::string_view start;
  const char* name;
};

constexpr Stranger kStrangers[] = {
    {"GET ", "an HTTP request"},
    {"POST ", "an HTTP request"},
    {"PUT ", "an HTTP request"},
    {"HEAD ", "an HTTP request"},
    {"DELETE ", "an HTTP request"},
    {"OPTIONS ", "an HTTP request"},
    {"PATCH ", "an HTTP request"},
    {"CONNECT ", "an HTTP request"},
    {"TRACE ", "an HTTP request"},
    {"HTTP/", "an HTTP reply"},
    {"PRI * HT", "an HTTP/2 or gRPC client"},
    {"\x16\x03", "a TLS hello"},
    {"\x15\x03", "a TLS alert"},
    {"SSH-", "an SSH peer"},
    {"FWSUM", "a task with FUSEWIRE_CHECKSUM, which is not set here"},
    {"*1\r\n$", "a Redis client"},
    {"*2\r\n$", "a Redis client"},
    {"*3\r\n$", "a Redis client"},
    {"PING\r\n", "a Redis client"},
    {"-ERR ", "a Redis server"},
    {"-NOAUTH", "a Redis server"},
    {"+PONG", "a Redis server"},
    {"220 ", "a mail or FTP server"},
    {"EHLO ", "a mail client"},
    {"HELO ", "a mail client"},
    {std::string_view("\x03\x00\x00", 3), "a remote desktop scan"},
    {"FW", "a Fusewire frame before any hello"},
};

// An HTTP/2 server speaks first, too: an empty or short SETTINGS frame (length:u24 big-endian, type 4, flags, stream
// 0).
bool LooksLikeHttp2Server(ConstBytes bytes) {
  return bytes.size >= 9 && bytes.data[0] == 0 && bytes.data[1] == 0 && bytes.data[2] % 6 == 0 && bytes.data[3] == 4 &&
         bytes.data[4] <= 1 && std::all_of(bytes.data + 5, bytes.data + 9, [](uint8_t byte) { return byte == 0; });
}

const char* NameStranger(ConstBytes bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data), bytes.size);
  for (const Stranger& stranger : kStrangers) {
    if (text.substr(0, stranger.start.size()) == stranger.start) return stranger.name;
  }
  if (LooksLikeHttp2Server(bytes)) return "an HTTP/2 or gRPC server";
  return nullptr;
}

std::string Hex(ConstBytes bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < bytes.size; ++i) {
    text += kDigits[bytes.data[i] >> 4];
    text += kDigits[bytes.data[i] & 15];
  }
  return text;
}

Status NotOurs(ConstBytes prefix) {
  const char* stranger = NameStranger(prefix);
  const ConstBytes start = prefix.Sub(0, std::min(prefix.size, kGreetingPrefixBytes));
  std::string text = "not a Fusewire greeting: ";
  text += stranger != nullptr ? std::string("looks like ") + stranger : "starts with " + Hex(start);
  return Status::Corrupt(std::move(text)).Next("check which program uses this address and port");
}

std::string Versions(uint16_t oldest, uint16_t newest) {
  return oldest == newest ? "version " + std::to_string(newest)
                          : "versions " + std::to_string(oldest) + " to " + std::to_string(newest);
}

}  // namespace

std::string ServiceWords(uint16_t service) {
  const char* name = service == 1 ? " (rpc)" : service == 2 ? " (endpoints)" : "";
  return std::to_string(service) + name;
}

Status CheckHello(const Hello& hello) {
  for (const std::string* text : {&hello.cluster, &hello.name}) {
    const std::string field = text == &hello.cluster ? "cluster" : "name";
    if (text->size() > kNameBytesMax) {
      return Status::Invalid(field + " of " + std::to_string(text->size()) + " bytes, limit " +
                             std::to_string(kNameBytesMax));
    }
    if (std::any_of(text->begin(), text->end(), IsControl))
      return Status::Invalid(field + " holds a control character");
  }
  if (hello.chunk_bytes < kChunkBytesMin) {
    return Status::Invalid("chunk_bytes " + std::to_string(hello.chunk_bytes) + ", at least " +
                           std::to_string(kChunkBytesMin));
  }
  if (hello.window_bytes > kWindowBytesMax) {
    return Status::Invalid("window_bytes " + std::to_string(hello.window_bytes) + ", limit " +
                           std::to_string(kWindowBytesMax));
  }
  return Status();
}

std::string EncodeHello(const Hello& hello) { return Greeting(GreetingKind::kHello, HelloBody(hello)); }

std::string EncodeWelcome(const Hello& hello, const Proof* proof) {
  FUSEWIRE_CHECK(proof == nullptr || hello.has_secret);
  std::string body = HelloBody(hello);
  if (proof != nullptr) body.append(reinterpret_cast<const char*>(proof->data()), proof->size());
  const size_t missing_bytes = hello.has_secret && proof == nullptr ? sizeof(Proof) : 0;
  return Greeting(GreetingKind::kWelcome, body, missing_bytes);
}

std::string EncodeProof(const Proof& proof) {
  return Greeting(GreetingKind::kProof, std::string(reinterpret_cast<const char*>(proof.data()), proof.size()));
}

std::string EncodeChallenge(const Nonce& nonce) {
  return Greeting(GreetingKind::kChallenge, std::string(reinterpret_cast<const char*>(nonce.data()), nonce.size()));
}

std::string EncodeRefusal(const Refusal& refusal) {
  FUSEWIRE_CHECK(refusal.code != Code::kOk);
  std::string body;
  Append(&body, static_cast<uint8_t>(refusal.code));
  AppendText(&body, refusal.why.substr(0, kRefusalWhyBytesMax));
  return Greeting(GreetingKind::kRefusal, body);
}

bool MayBeGreeting(ConstBytes words) {
  return words.empty() || std::memcmp(words.data, kMagic.data(), std::min(words.size, kMagic.size())) == 0;
}

Result<GreetingPrefix> DecodeGreetingPrefix(ConstBytes prefix) {
  if (prefix.empty()) return Truncated("greeting");
  if (!MayBeGreeting(prefix)) return NotOurs(prefix);
  if (prefix.size < kGreetingPrefixBytes) return Truncated("greeting");

  Reader reader(prefix.From(kMagic.size()));
  GreetingPrefix out;
  out.version = reader.Number<uint16_t>();
  out.version_min = reader.Number<uint16_t>();
  out.kind = static_cast<GreetingKind>(reader.Number<uint8_t>());
  const uint8_t zero = reader.Number<uint8_t>();
  out.body_bytes = reader.Number<uint16_t>();
  if (out.version_min > out.version) {
    return Status::Corrupt("greeting: version " + std::to_string(out.version) + ", but version_min " +
                           std::to_string(out.version_min));
  }
  const bool shared = out.version >= kVersionMin && out.version_min <= kVersion;
  if (!shared && out.kind != GreetingKind::kRefusal) {
    return Status::Refused("peer speaks " + Versions(out.version_min, out.version) + " of the protocol, we speak " +
                           Versions(kVersionMin, kVersion))
        .Next("run releases of Fusewire that share a protocol version");
  }
  if (out.kind < GreetingKind::kHello || out.kind > GreetingKind::kChallenge) {
    return Status::Corrupt("greeting: kind " + std::to_string(static_cast<int>(out.kind)) + " is unknown");
  }
  if (zero != 0) return Status::Corrupt("greeting: byte 13 is " + std::to_string(zero) + ", must be 0");
  if (out.body_bytes > kBodyBytesMax) {
    return Status::Corrupt("greeting: body_bytes " + std::to_string(out.body_bytes) + ", limit " +
                           std::to_string(kBodyBytesMax));
  }
  return out;
}

Result<Hello> DecodeHello(ConstBytes body) {
  Reader reader(body);
  Hello hello;
  FUSEWIRE_TRY(ReadHello(&reader, "hello", &hello));
  FUSEWIRE_TRY(CheckEnd(reader, "hello"));
  return hello;
}

Result<Welcome> DecodeWelcome(ConstBytes body) {
  Reader reader(body);
  Welcome welcome;
  FUSEWIRE_TRY(ReadHello(&reader, "welcome", &welcome.hello));
  welcome.has_proof = welcome.hello.has_secret;
  if (welcome.has_proof) TakeArray(&reader, &welcome.proof);
  FUSEWIRE_TRY(CheckEnd(reader, "welcome"));
  return welcome;
}

Result<Proof> DecodeProof(ConstBytes body) { return DecodeArray<Proof>(body, "proof"); }

Result<Nonce> DecodeChallenge(ConstBytes body) { return DecodeArray<Nonce>(body, "challenge"); }

Result<Refusal> DecodeRefusal(ConstBytes body) {
  Reader reader(body);
  const uint8_t code = reader.Number<uint8_t>();
  Refusal refusal;
  refusal.why = reader.Text().ToString();
  FUSEWIRE_TRY(CheckEnd(reader, "refusal"));
  if (code == 0 || code > kCodeMax) {
    return Status::Corrupt("refusal: code " + std::to_string(code) + ", limit " + std::to_string(kCodeMax));
  }
  refusal.code = static_cast<Code>(code);
  // This text is logged before the peer has proved anything, so it must stay one line.
  std::replace_if(refusal.why.begin(), refusal.why.end(), IsControl, ' ');
  return refusal;
}

}  // namespace fusewire::wire

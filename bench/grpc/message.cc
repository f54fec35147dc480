// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "bench/grpc/message.h"

#include <grpcpp/support/slice.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "bench/harness/harness.h"

namespace fusewire::bench {
namespace {

std::string TextOf(const std::string& file) {
  std::ifstream stream(file);
  if (!stream) Die(file + " can't be read");
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

}  // namespace

grpc::ByteBuffer StaticMessage(size_t size) {
  static const std::vector<char> memory(kBulkBytes, 'x');
  if (size > memory.size()) Die("a static message of this size");
  const grpc::Slice slice(memory.data(), size, grpc::Slice::STATIC_SLICE);
  return grpc::ByteBuffer(&slice, 1);
}

grpc::ByteBuffer RequestMessage(size_t size, uint32_t reply_size) {
  std::vector<char> bytes(size, 'x');
  std::memcpy(bytes.data(), &reply_size, sizeof(reply_size));
  const grpc::Slice slice(bytes.data(), bytes.size());
  return grpc::ByteBuffer(&slice, 1);
}

size_t Land(const grpc::ByteBuffer& message, char* into, size_t capacity) {
  std::vector<grpc::Slice> slices;
  if (!message.Dump(&slices).ok()) Die("dump of a message");
  size_t size = 0;
  for (const grpc::Slice& slice : slices) {
    if (slice.size() > capacity - size) Die("a message larger than its landing");
    std::memcpy(into + size, slice.begin(), slice.size());
    size += slice.size();
  }
  return size;
}

std::shared_ptr<grpc::ChannelCredentials> ClientCredentials(const Options& options) {
  if (options.tls.empty()) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions tls;
  tls.pem_root_certs = TextOf(options.tls + "/ca.crt");
  tls.pem_cert_chain = TextOf(options.tls + "/task.crt");
  tls.pem_private_key = TextOf(options.tls + "/task.key");
  return grpc::SslCredentials(tls);
}

std::shared_ptr<grpc::ServerCredentials> ServerCredentials(const Options& options) {
  if (options.tls.empty()) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions tls(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  tls.pem_root_certs = TextOf(options.tls + "/ca.crt");
  tls.pem_key_cert_pairs.push_back({TextOf(options.tls + "/task.key"), TextOf(options.tls + "/task.crt")});
  return grpc::SslServerCredentials(tls);
}

}  // namespace fusewire::bench

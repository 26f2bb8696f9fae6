// What XLA hands to a custom call on the CPU, as far as it is used here: the binary layout of its
// FFI, which grows at the ends of structs only. So no header of jaxlib is needed to build, and one
// library serves every jaxlib with the typed FFI. Each struct says its size, and is checked.
#pragma once
#include <cstddef>
#include <cstdint>

namespace xla {

struct Extension {
  size_t struct_size;
  int32_t type;
  Extension* next;
};
constexpr int32_t METADATA = 1;

struct Version {
  size_t struct_size;
  Extension* extensions;
  int32_t major, minor;
};

struct Metadata {  // asked once, when the call is registered
  size_t struct_size;
  Version version;
  uint32_t traits;
};

struct MetadataExtension {
  Extension base;
  Metadata* metadata;
};

struct Error;
struct ErrorArguments {
  size_t struct_size;
  Extension* extensions;
  const char* message;
  int32_t code;
};
constexpr int32_t INVALID_ARGUMENT = 3, RESOURCE_EXHAUSTED = 8;

struct ThreadsArguments {
  size_t struct_size;
  Extension* extensions;
  void* context;
  int64_t* count;
};

struct Api {
  size_t struct_size;
  Extension* extensions;
  Version version;
  const void* internal;
  Error* (*create_error)(ErrorArguments*);
  void (*get_message)(void*);
  void (*destroy_error)(void*);
  void* between[9];
  Error* (*schedule)(void*);
  Error* (*count_threads)(ThreadsArguments*);
};

struct Buffer {
  size_t struct_size;
  Extension* extensions;
  int32_t dtype;
  void* data;
  int64_t rank;
  const int64_t* dims;
};

struct Buffers {
  size_t struct_size;
  Extension* extensions;
  int64_t size;
  int32_t* types;
  Buffer** items;
};

struct Array {
  int32_t dtype;
  size_t size;
  const int64_t* data;
};

struct Attributes {  // sorted by name
  size_t struct_size;
  Extension* extensions;
  int64_t size;
  int32_t* types;
  void** names;
  Array** items;
};
constexpr int32_t ARRAY = 1, EXECUTE = 3;

struct Frame {
  size_t struct_size;
  Extension* extensions;
  const Api* api;
  void* context;
  int32_t stage;
  Buffers arguments, results;
  Attributes attributes;
};

}  // namespace xla

/**
 * The body of a request or of an answer, copied into one buffer while it is received. A list of the pieces would cost hundreds of
 * bytes for each, and the sender chooses how many pieces there are.
 */

/** Smaller buffers are left to V8, because Node cuts many out of one, and freeing each costs more than it saves. */
const ownMemoryFromBytes = 16 * 1024;

export class GrowingBuffer {
  readonly #limitBytes: number;
  #memory: Buffer<ArrayBufferLike> = Buffer.alloc(0);
  #length = 0;

  /** It never holds more than `limitBytes`, nor takes more memory than that. */
  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes;
  }

  /** By how many bytes its memory grows if `bytes` more are appended; undefined if they are too many. */
  growthFor(bytes: number): number | undefined {
    const length = this.#length + bytes;
    if (length > this.#limitBytes) return undefined;
    const capacity = this.#memory.length;
    return length <= capacity ? 0 : Math.min(this.#limitBytes, Math.max(length, 2 * capacity)) - capacity;
  }

  /** Copies a piece to the end. Returns false, and copies nothing, if the piece is too long. */
  append(piece: Uint8Array): boolean {
    const growth = this.growthFor(piece.length);
    if (growth === undefined) return false;
    if (growth > 0) this.#grow(this.#memory.length + growth);
    this.#memory.set(piece, this.#length);
    this.#length += piece.length;
    return true;
  }

  /** All bytes so far. They share the memory, so that they are lost with {@link free}. */
  whole(): Buffer<ArrayBufferLike> {
    return this.#memory.subarray(0, this.#length);
  }

  /** Frees the memory at once. V8 would let some 64 MiB gather first, so that a flood would be in memory several times. */
  free(): void {
    giveBack(this.#memory);
    this.#memory = Buffer.alloc(0);
    this.#length = 0;
  }

  #grow(capacity: number): void {
    const before = this.#memory;
    this.#memory = capacity < ownMemoryFromBytes ? Buffer.allocUnsafe(capacity) : Buffer.allocUnsafeSlow(capacity);
    this.#memory.set(before.subarray(0, this.#length));
    giveBack(before);
  }
}

/** A body that shares a bound with others, and can be made to free its memory. */
export interface Holder {
  /** What it counts now. It is 0 before {@link SharedMemory.take} and after {@link SharedMemory.leave}, which write it. */
  bytes: number;
  /** Leaves, because the others need its memory, and informs its sender. */
  giveUp(): void;
}

/** The bound of bodies together while they are received. Any number of stalled large bodies does not keep out a small one. */
export class SharedMemory {
  readonly #mostBytes: number;
  readonly #holders = new Set<Holder>();
  #bytes = 0;

  constructor(mostBytes: number) {
    this.#mostBytes = mostBytes;
  }

  /** The bytes of all bodies now. */
  get bytes(): number {
    return this.#bytes;
  }

  /**
   * Counts memory that a body is about to take. If all together exceed the bound, the largest body gives up. Returns false if
   * that is this one.
   */
  take(holder: Holder, bytes: number): boolean {
    this.#holders.add(holder);
    holder.bytes += bytes;
    this.#bytes += bytes;
    if (this.#bytes <= this.#mostBytes) return true;
    let largest = holder;
    for (const other of this.#holders) if (other.bytes > largest.bytes) largest = other;
    largest.giveUp();
    return largest !== holder;
  }

  /** Counts a body no more: it was received, or has given up. */
  leave(holder: Holder): void {
    this.#holders.delete(holder);
    this.#bytes -= holder.bytes;
    holder.bytes = 0;
  }
}

function giveBack({ buffer, byteLength }: Buffer<ArrayBufferLike>): void {
  if (byteLength >= ownMemoryFromBytes && buffer instanceof ArrayBuffer) buffer.transfer(0);
}

/**
 * The body of a request or of an answer while it comes, copied into one piece of memory. A list of what came would cost hundreds
 * of bytes for each piece, because each is an object, and its sender chooses how many there are.
 */

/** Smaller ones are left to V8: giving their memory back costs more than it is worth, and Node cuts many out of one. */
const ownMemoryFromBytes = 16 * 1024;

export class GrowingBuffer {
  readonly #limitBytes: number;
  #memory: Buffer<ArrayBufferLike> = Buffer.alloc(0);
  #length = 0;

  /** It never holds more than `limitBytes`, nor takes more memory than that. */
  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes;
  }

  /** By how many bytes its memory grows when so many bytes more are put into it; undefined where they are too many. */
  growthFor(bytes: number): number | undefined {
    const length = this.#length + bytes;
    if (length > this.#limitBytes) return undefined;
    const capacity = this.#memory.length;
    return length <= capacity ? 0 : Math.min(this.#limitBytes, Math.max(length, 2 * capacity)) - capacity;
  }

  /** Copies a piece behind what there is, and keeps nothing else of it. False, and nothing is copied, where it is too much. */
  append(piece: Uint8Array): boolean {
    const growth = this.growthFor(piece.length);
    if (growth === undefined) return false;
    if (growth > 0) this.#grow(this.#memory.length + growth);
    this.#memory.set(piece, this.#length);
    this.#length += piece.length;
    return true;
  }

  /** All that came. It shares the memory: it is of no use any more after {@link free}. */
  whole(): Buffer<ArrayBufferLike> {
    return this.#memory.subarray(0, this.#length);
  }

  /** Gives its memory back at once. V8 would let some 64 MiB gather before: a flood would be in memory several times over. */
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

function giveBack({ buffer, byteLength }: Buffer<ArrayBufferLike>): void {
  if (byteLength >= ownMemoryFromBytes && buffer instanceof ArrayBuffer) buffer.transfer(0);
}

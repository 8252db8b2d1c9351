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

/** A body that counts among others, and can be made to give its memory back. */
export interface Holder {
  /** What it counts now. It is 0 before {@link SharedMemory.take} and after {@link SharedMemory.leave}, which write it. */
  bytes: number;
  /** The others need its memory: it leaves, and its sender is told. */
  giveUp(): void;
}

/** What bodies may take together while they come. A small one gets in however many large ones stand still. */
export class SharedMemory {
  readonly #mostBytes: number;
  readonly #holders = new Set<Holder>();
  #bytes = 0;

  constructor(mostBytes: number) {
    this.#mostBytes = mostBytes;
  }

  /** What all of them count now. */
  get bytes(): number {
    return this.#bytes;
  }

  /**
   * Counts memory that a body is about to take. Where it is too much together, the largest body gives up. False where the
   * largest is this one.
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

  /** It has come, or given up. */
  leave(holder: Holder): void {
    this.#holders.delete(holder);
    this.#bytes -= holder.bytes;
    holder.bytes = 0;
  }
}

function giveBack({ buffer, byteLength }: Buffer<ArrayBufferLike>): void {
  if (byteLength >= ownMemoryFromBytes && buffer instanceof ArrayBuffer) buffer.transfer(0);
}

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { slopeOf } from "./slope.ts";

describe("the slope of memory", () => {
  it("is 0 for memory that grows at first and is flat in the second half", () => {
    const samples = [0, 100, 500, 600, 800, 1_000].map((reviews) => ({
      reviews,
      residentBytes: reviews < 500 ? 50 + reviews : 200,
    }));
    assert.deepEqual(slopeOf(samples), {
      firstBytes: 50,
      tenthBytes: 150,
      halfBytes: 200,
      lastBytes: 200,
      peakBytes: 200,
      bytesPerReview: 0,
    });
  });

  it("finds a leak under a sawtooth", () => {
    const samples = Array.from({ length: 1_000 }, (_, index) => ({
      reviews: index * 100,
      residentBytes: 100e6 + index * 100 * 30 + (index % 10) * 1_000_000,
    }));
    const { bytesPerReview, peakBytes, lastBytes } = slopeOf(samples);
    assert.ok(Math.abs(bytesPerReview - 30) < 5, String(bytesPerReview));
    assert.ok(peakBytes >= lastBytes);
  });

  it("is 0 for one sample, and an error for none", () => {
    assert.equal(slopeOf([{ reviews: 0, residentBytes: 5 }]).bytesPerReview, 0);
    assert.throws(() => slopeOf([]), /no samples/);
  });
});

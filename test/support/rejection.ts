import assert from "node:assert/strict";
import { ClusterError } from "../../functions/shared/kubernetes/cluster.ts";

/** The error that the promise rejects with. Fails if it resolves, or if the error is no ClusterError. */
export async function rejection(promise: Promise<unknown>): Promise<ClusterError> {
  try {
    await promise;
  } catch (error) {
    assert.ok(error instanceof ClusterError, `not a ClusterError: ${error}`);
    return error;
  }
  assert.fail("it was not refused");
}

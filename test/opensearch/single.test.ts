/**
 * A person marks a pod of a database, and its process restarts in place with the file that is mounted now: the shipped function
 * and process manager, a real API server, and a real OpenSearch.
 */
import { suite, test } from "node:test";
import { assertRestartsAlone } from "./alone.ts";
import { skip, stage } from "./stage.ts";

suite("a process of a real OpenSearch that restarts inside its pod", { skip }, () => {
  const on = stage(() => ({ zones: 1 }));

  test("it runs with the new file in the same pod, the cluster is green with its documents and settings, and nothing is left", () =>
    assertRestartsAlone(on.pods));
});

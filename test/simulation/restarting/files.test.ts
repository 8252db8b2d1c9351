/** Restarts for files in Secrets break no promise, and everything that users do to Secrets does happen. */
import { test } from "node:test";
import { happens } from "../happens.ts";
import { restartingFiles } from "./scenarios.ts";

test("processes run in the end with the files that users expect, or a verdict has said what holds them (P2, P6, P7)", () => {
  const done = [
    /kubelet +brings files/,
    /gets files \d+ \(broken/,
    /gets files \d+ \(unreadable/,
    /write mode/,
    /delete group-[ab]-files/,
    /make group-[ab]-mounted immutable/,
    /edit group-[ab]-mounted/,
    /pods are restarted together/,
    /manager +group-[ab]-\d has started/,
  ];
  const verdicts = [
    /verdict restart-config-disagrees/,
    /verdict restart-config-missing/,
    /verdict restart-config-unreadable/,
  ];
  const collected = [/expects group-[ab]-files-\d+/, /config-collector-\d+ delete secrets/];
  return happens("restarting-files", restartingFiles, 16, [
    ...done,
    ...verdicts,
    ...collected,
    /restarter-\d+ is killed/,
  ]);
});

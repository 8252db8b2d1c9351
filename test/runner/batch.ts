/**
 * Runs many test files in one process: `node batch.ts FILE ...`. To start a process and load the product anew for each of the
 * quick files costs more than their tests. A file whose tests need a process of their own does not belong here.
 */
import { test } from "node:test";
import { pathToFileURL } from "node:url";

const { promise: loaded, resolve, reject } = Promise.withResolvers<void>();

// Tests run in the order in which they are declared. Without this one the runner would take the process for done each time
// when all tests of the files that are loaded have ended.
test("the files of the batch are loaded", () => loaded);

try {
  for (const file of process.argv.slice(2)) await import(pathToFileURL(file).href);
  resolve();
} catch (error) {
  reject(error);
}

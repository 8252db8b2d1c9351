/**
 * Runs many test files in one process: `node batch.ts FILE ...`. For quick files, starting a process and loading the product
 * each time costs more than their tests. A file whose tests need a process of their own does not belong here.
 */
import { test } from "node:test";
import { pathToFileURL } from "node:url";

const { promise: loaded, resolve, reject } = Promise.withResolvers<void>();

// Tests run in the order of their declaration. This test stays open until all files are loaded: otherwise the runner would end
// the process as soon as the tests of the files loaded so far have ended.
test("the files of the batch are loaded", () => loaded);

try {
  for (const file of process.argv.slice(2)) await import(pathToFileURL(file).href);
  resolve();
} catch (error) {
  reject(error);
}

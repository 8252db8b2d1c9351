/**
 * Runs many test files in one process: `node batch.ts FILE ...`. To start a process and load the product anew for each of the
 * quick files costs more than their tests. A file whose tests need a process of their own does not belong here.
 */
import { pathToFileURL } from "node:url";

for (const file of process.argv.slice(2)) await import(pathToFileURL(file).href);

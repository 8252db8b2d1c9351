/**
 * Gives a started process the names of pods in DNS, by a script that it loads first. A folder has a file for each name, which
 * holds its address; other names are resolved as ever. Only tests load it: the product has no such setting.
 */
import dns from "node:dns";
import { readFileSync, writeFileSync } from "node:fs";
import type { LookupFunction } from "node:net";
import { join } from "node:path";

const podName = /^[a-z0-9][a-z0-9.-]*\.svc\.[a-z0-9.-]+$/;

/**
 * For a process's `NODE_OPTIONS`: it resolves the names of pods by that folder, where this writes the script. The script is
 * JavaScript with nothing to import: to load this module instead would double what the start of a process costs.
 */
export function podNamesIn(folder: string): string {
  const lines = [`const podName = ${podName};`, String(addressIn), String(lookupIn), String(patchLookup)];
  const imports = `const dns = require("node:dns"), { readFileSync } = require("node:fs"), { join } = require("node:path");`;
  const script = join(folder, ".pod-names.cjs");
  writeFileSync(script, [imports, ...lines, `patchLookup(${JSON.stringify(folder)});`].join("\n"));
  return `--require ${script}`;
}

/** Resolves the names of pods by that folder, at each reconcile anew, and has all others resolved by `otherwise`. */
export function lookupIn(folder: string, otherwise?: LookupFunction): LookupFunction {
  return (host, options, found) => {
    if (!podName.test(host) && otherwise !== undefined) {
      otherwise(host, options, found);
      return;
    }
    const address = addressIn(folder, host);
    // As a resolver does: never before the caller has gone on.
    setImmediate(() => {
      if (address === undefined) {
        const unknown = Object.assign(new Error(`getaddrinfo ENOTFOUND ${host}`), { code: "ENOTFOUND" });
        found(unknown, options.all ? [] : "");
      } else if (options.all) found(null, [{ address, family: 4 }]);
      else found(null, address, 4);
    });
  };
}

function addressIn(folder: string, host: string): string | undefined {
  try {
    return readFileSync(join(folder, host.replace(/\.$/, "")), "utf8");
  } catch {
    return undefined;
  }
}

/** Has this process resolve the names of pods by that folder, wherever it looks one up without a resolver of its own. */
export function patchLookup(folder: string): void {
  const original = dns.lookup as unknown as LookupFunction;
  const patched = lookupIn(folder, original);
  const lookup = (host: string, options: unknown, found?: unknown) => {
    if (typeof options === "object") patched(host, options as never, found as never);
    else (original as (...given: unknown[]) => void)(host, options, found);
  };
  Object.assign(dns, { lookup });
}

/**
 * Lets a process resolve the names of pods, by a script that it loads first. A folder has a file for each name, with its
 * address; other names are resolved as usual. Only tests load the script: the product has no such setting.
 */
import dns from "node:dns";
import { readFileSync, writeFileSync } from "node:fs";
import type { LookupFunction } from "node:net";
import { join } from "node:path";

const podName = /^[a-z0-9][a-z0-9.-]*\.svc\.[a-z0-9.-]+$/;

/**
 * Writes the script into the folder. Returns the `NODE_OPTIONS` of a process that resolves the names of pods by that folder.
 * The script is JavaScript without imports, because loading this module would double the time of a process's start.
 */
export function podNamesIn(folder: string): string {
  const lines = [`const podName = ${podName};`, String(addressIn), String(lookupIn), String(patchLookup)];
  const imports = `const dns = require("node:dns"), { readFileSync } = require("node:fs"), { join } = require("node:path");`;
  const script = join(folder, ".pod-names.cjs");
  writeFileSync(script, [imports, ...lines, `patchLookup(${JSON.stringify(folder)});`].join("\n"));
  return `--require ${script}`;
}

/** Resolves the names of pods by that folder, which is read for each look-up, and all others by `otherwise`. */
export function lookupIn(folder: string, otherwise?: LookupFunction): LookupFunction {
  return (host, options, found) => {
    if (!podName.test(host) && otherwise !== undefined) {
      otherwise(host, options, found);
      return;
    }
    const address = addressIn(folder, host);
    // A resolver never calls back before its caller has gone on.
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

/**
 * The command that runs a program which is no Node process, and which resolves names by this file as by /etc/hosts. Both
 * programs before it replace themselves, so that the process id is that of the program.
 */
export function namedBy(hostsFile: string, program: string, args: readonly string[]) {
  const mounted = ["--mount", "--", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', hostsFile];
  return { file: "unshare", args: ["--user", "--map-root-user", ...mounted, program, ...args] };
}

/** Makes this process resolve the names of pods by that folder, wherever it uses the default resolver. */
export function patchLookup(folder: string): void {
  const original = dns.lookup as unknown as LookupFunction;
  const patched = lookupIn(folder, original);
  const lookup = (host: string, options: unknown, found?: unknown) => {
    if (typeof options === "object") patched(host, options as never, found as never);
    else (original as (...given: unknown[]) => void)(host, options, found);
  };
  Object.assign(dns, { lookup });
}

/** The fields of `package.json` that rendered files use: the repository, the image and the chart. */

export interface PackageFields {
  readonly name: string;
  readonly version: string;
  /** As npm has it: a URL, or an object with one. Absent: there is no public repository. */
  readonly repository?: string | { readonly url: string };
  readonly sluice: {
    /** The image without its tag, as a registry has it. */
    readonly image: string;
    /** The name of the chart. */
    readonly chart: string;
  };
}

/** The repository's address as a browser opens it, without a slash at its end; undefined without one. */
export function repositoryOf({ repository }: PackageFields): string | undefined {
  const url = typeof repository === "string" ? repository : repository?.url;
  return url?.replace(/^git\+/, "").replace(/(\.git)?\/*$/, "");
}

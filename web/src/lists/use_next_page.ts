import { useCallback } from "react";

/** The part of an infinite query that the load of its next page needs. */
interface Pages {
  readonly hasNextPage: boolean;
  readonly isFetchingNextPage: boolean;
  readonly isFetchNextPageError: boolean;
  readonly fetchNextPage: () => Promise<unknown>;
}

/** Returns a function that loads the next page of a list. A failed page is loaded again by its button only. */
export function useNextPage({ hasNextPage, isFetchingNextPage, isFetchNextPageError, fetchNextPage }: Pages): () => void {
  return useCallback(() => {
    if (hasNextPage && !isFetchingNextPage && !isFetchNextPageError) void fetchNextPage();
  }, [hasNextPage, isFetchingNextPage, isFetchNextPageError, fetchNextPage]);
}

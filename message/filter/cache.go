package filter

import (
	"strings"
	"sync"
)

// cacheEntries is the number of texts a Cache remembers, as in Java (SelectorParser).
const cacheEntries = 100

// Cache remembers what recent texts compiled to, errors included, because a consumer sends its expression with every
// pull. When it is full a random entry makes room: consumers poll in circles, where least recently used is the worst
// choice. The zero value is ready to use. It is safe for concurrent use.
type Cache struct {
	mu      sync.RWMutex
	results map[string]result // guarded by mu; at most cacheEntries
}

type result struct {
	expr *Expr
	err  error
}

// Compile is the function Compile through the cache.
func (c *Cache) Compile(text string) (*Expr, error) {
	c.mu.RLock()
	r, ok := c.results[text]
	c.mu.RUnlock()
	if ok {
		return r.expr, r.err
	}
	r.expr, r.err = Compile(text)
	if len(text) <= maxTextBytes {
		c.put(strings.Clone(text), r)
	}
	return r.expr, r.err
}

func (c *Cache) put(text string, r result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.results == nil {
		c.results = make(map[string]result, cacheEntries)
	}
	if _, ok := c.results[text]; !ok && len(c.results) == cacheEntries {
		for victim := range c.results {
			delete(c.results, victim)
			break
		}
	}
	c.results[text] = r
}

package remoting

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/des"
	"crypto/pbkdf2"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"hash"
)

// Encrypted private keys: PKCS #8 with PBES2 (RFC 8018), which is what openssl writes since 1.0.

var (
	errOldCipher = errors.New("encrypted in an old form; convert it with: openssl pkcs8 -topk8 -v2 aes-256-cbc -in old.key -out new.key")
	errPassword  = errors.New("wrong keyPassword")
)

var (
	oidPBES2  = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 13}
	oidPBKDF2 = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 12}
)

// pbkdf2Hashes are the pseudo-random functions, pbesCiphers the ciphers that RFC 8018 names and openssl offers.
var pbkdf2Hashes = map[string]func() hash.Hash{
	"1.2.840.113549.2.7":  sha1.New, // also what an absent function means
	"1.2.840.113549.2.9":  sha256.New,
	"1.2.840.113549.2.10": sha512.New384,
	"1.2.840.113549.2.11": sha512.New,
}

var pbesCiphers = map[string]struct {
	keySize int
	open    func(key []byte) (cipher.Block, error)
}{
	"2.16.840.1.101.3.4.1.2":  {16, aes.NewCipher},
	"2.16.840.1.101.3.4.1.22": {24, aes.NewCipher},
	"2.16.840.1.101.3.4.1.42": {32, aes.NewCipher},
	"1.2.840.113549.3.7":      {24, des.NewTripleDESCipher},
}

// maxIterations bounds the work that a key file asks for. openssl's default is 2048.
const maxIterations = 10_000_000

type encryptedKeyInfo struct {
	Algorithm pkix.AlgorithmIdentifier
	Data      []byte
}

type pbes2Params struct {
	KDF    pkix.AlgorithmIdentifier
	Cipher pkix.AlgorithmIdentifier
}

type pbkdf2Params struct {
	Salt       []byte
	Iterations int
	KeyLength  int                      `asn1:"optional"`
	PRF        pkix.AlgorithmIdentifier `asn1:"optional"`
}

// decryptPKCS8 returns the DER of the PrivateKeyInfo inside an EncryptedPrivateKeyInfo.
func decryptPKCS8(der []byte, password string) ([]byte, error) {
	var info encryptedKeyInfo
	if err := unmarshal(der, &info); err != nil {
		return nil, err
	}
	if !info.Algorithm.Algorithm.Equal(oidPBES2) {
		return nil, errOldCipher
	}
	var pbes pbes2Params
	if err := unmarshal(info.Algorithm.Parameters.FullBytes, &pbes); err != nil {
		return nil, err
	}
	c, known := pbesCiphers[pbes.Cipher.Algorithm.String()]
	if !known || !pbes.KDF.Algorithm.Equal(oidPBKDF2) {
		return nil, errOldCipher
	}
	key, err := deriveKey(pbes.KDF.Parameters.FullBytes, password, c.keySize)
	if err != nil {
		return nil, err
	}
	var iv []byte
	if err := unmarshal(pbes.Cipher.Parameters.FullBytes, &iv); err != nil {
		return nil, err
	}
	block, err := c.open(key)
	if err != nil {
		return nil, err
	}
	size := block.BlockSize()
	if len(iv) != size || len(info.Data) == 0 || len(info.Data)%size != 0 {
		return nil, errors.New("malformed encrypted key")
	}
	plain := make([]byte, len(info.Data))
	cipher.NewCBCDecrypter(block, iv).CryptBlocks(plain, info.Data)
	pad := int(plain[len(plain)-1])
	if pad == 0 || pad > size {
		return nil, errPassword
	}
	plain = plain[:len(plain)-pad]
	if err := unmarshal(plain, new(asn1.RawValue)); err != nil {
		return nil, errPassword
	}
	return plain, nil
}

func deriveKey(params []byte, password string, size int) ([]byte, error) {
	var kdf pbkdf2Params
	if err := unmarshal(params, &kdf); err != nil {
		return nil, err
	}
	prf := sha1.New
	if len(kdf.PRF.Algorithm) > 0 {
		if prf = pbkdf2Hashes[kdf.PRF.Algorithm.String()]; prf == nil {
			return nil, errOldCipher
		}
	}
	if kdf.Iterations < 1 || kdf.Iterations > maxIterations {
		return nil, fmt.Errorf("%d iterations", kdf.Iterations)
	}
	return pbkdf2.Key(prf, password, kdf.Salt, kdf.Iterations, size)
}

func unmarshal(der []byte, into any) error {
	rest, err := asn1.Unmarshal(der, into)
	if err == nil && len(rest) > 0 {
		err = errors.New("bytes after the end")
	}
	if err != nil {
		return fmt.Errorf("malformed encrypted key: %w", err)
	}
	return nil
}
